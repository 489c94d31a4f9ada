// What a lock costs, and how long many wait for few, beside the package `redlock` on the same server: a table for people.
//
// RLOCK_URL is a server with the module that nobody else uses. It takes about a minute.

import { Redis } from 'ioredis';
import Redlock from 'redlock';
import { Locks } from 'rlock-client';

const URL = process.env.RLOCK_URL ?? 'redis://127.0.0.1:6379';
const LEASE = 30_000;
const CYCLES_MS = 5_000, TASKS = 1_000, LOCKS = 50, WORK_MS = 2;

const server = new Redis(URL);
const info = async name => (await server.info()).match(new RegExp(`^${name}:(.*)$`, 'm'))[1].trim();
const connections = async () => Number(await info('connected_clients'));
const cpuOfServer = async () => 1_000 * (Number(await info('used_cpu_user')) + Number(await info('used_cpu_sys')));

const sides = [
  {
    name: 'rlock-client',
    async open() {
      const locks = await Locks.connect(URL, { lease: LEASE });
      return { using: (name, work) => locks.using(name, work), close: () => locks.close() };
    },
  },
  {
    name: 'redlock 5, ioredis',
    async open() {
      const client = new Redis(URL);
      const redlock = new Redlock([client], { retryCount: -1 });
      return { using: (name, work) => redlock.using([name], LEASE, work), close: () => client.disconnect() };
    },
  },
];

async function measured(work) {
  const [server, own, begun] = [await cpuOfServer(), process.cpuUsage(), performance.now()];
  const result = await work();
  const wall = performance.now() - begun, { user, system } = process.cpuUsage(own);
  return { result, wall, client: (user + system) / 1_000, server: (await cpuOfServer()) - server };
}

// One task, a lock that nobody else wants.
async function uncontended({ using }) {
  for (let i = 0; i < 500; i++) await using('bench:alone', () => {});
  const { result: cycles, wall, client, server } = await measured(async () => {
    let cycles = 0;
    for (const end = performance.now() + CYCLES_MS; performance.now() < end; cycles++) await using('bench:alone', () => {});
    return cycles;
  });
  return { 'cycles/s': cycles / wall * 1_000, 'client µs/cycle': client * 1_000 / cycles, 'server µs/cycle': server * 1_000 / cycles };
}

// All tasks at once; each works for a moment under its lock.
async function contended({ using }, before) {
  const waits = [];
  const { wall, client, server } = await measured(() => Promise.all(Array.from({ length: TASKS }, async (_, task) => {
    const begun = performance.now();
    await using(`bench:${task % LOCKS}`, async () => {
      waits.push(performance.now() - begun);
      await new Promise(done => { setTimeout(done, WORK_MS); });
    });
  })));
  waits.sort((a, b) => a - b);
  return {
    'all done, ms': wall, 'half waited, ms': waits[TASKS / 2], 'longest wait, ms': waits.at(-1),
    'client CPU, ms': client, 'server CPU, ms': server, connections: (await connections()) - before,
  };
}

const columns = [];
for (const { name, open } of sides) {
  const before = await connections();
  const side = await open();
  columns.push([name, { ...await uncontended(side), ...await contended(side, before) }]);
  await side.close();
  while (await connections() > before) await new Promise(setImmediate);
}
server.disconnect();

const row = cells => console.log(`| ${cells.join(' | ')} |`);
row(['', ...columns.map(([name]) => name)]);
row(['---', ...columns.map(() => '---:')]);
for (const figure of Object.keys(columns[0][1])) {
  row([figure, ...columns.map(([, figures]) => Math.round(figures[figure]).toLocaleString('en'))]);
}
