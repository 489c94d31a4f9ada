// The servers under test, by RLOCK_URL and RLOCK_CLUSTER_URL, and what every test reads: waiters, holders, and what
// another program says.

import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { after } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Locks } from 'rlock-client';
import { createClient } from 'redis';

const PATIENCE = 20_000;

export const URL = process.env.RLOCK_URL;
export const CLUSTER_URL = process.env.RLOCK_CLUSTER_URL;

export const redis = createClient({ url: URL, RESP: 2 });
redis.on('error', () => {}); // each command's own promise rejects, too
await redis.connect();

// In the reverse order, as what is made later may need what was made before.
const ends = [() => redis.destroy()];
export const atEnd = end => ends.unshift(end);
after(async () => { for (const end of ends) await end(); });

// A client that is closed after the tests of its file.
export async function connect(settings) {
  const locks = await Locks.connect(URL, settings);
  atEnd(() => locks.close());
  return locks;
}

// A name that no other test uses.
export const fresh = () => randomUUID();

export async function until(what, condition) {
  for (const end = Date.now() + PATIENCE; !(await condition()); await sleep(2)) {
    if (Date.now() > end) throw new Error(`waited in vain until ${what}`);
  }
}

async function inspected(name) {
  const fields = await redis.sendCommand(['RLOCK.INSPECT', name]);
  return Object.fromEntries(Array.from({ length: fields.length / 2 }, (_, i) => [fields[2 * i], fields[2 * i + 1]]));
}

export const waiters = async name => (await inspected(name))['waiter-count'];
export const isFree = async name => (await redis.exists(name)) === 0;
export const untilWaiting = (name, count) => until(`${count} wait`, async () => (await waiters(name)) === count);
export const untilFree = name => until(`${name} is free`, () => isFree(name));

// Another program. Ends with the tests; its lines come one by one.
export function program(source, { args = [], flags = [] } = {}) {
  const child = spawn(process.execPath, [...flags, '--input-type=module', '-e', source, ...args], {
    cwd: import.meta.dirname, env: { ...process.env, RLOCK_URL: URL }, stdio: ['pipe', 'pipe', 'pipe'],
  });
  atEnd(() => child.kill('SIGKILL'));
  const lines = [], ended = once(child, 'close');
  let errors = '';
  child.stderr.on('data', data => { errors += data; });
  let rest = '';
  child.stdout.on('data', data => {
    const parts = (rest + data).split('\n');
    rest = parts.pop();
    lines.push(...parts);
  });
  return {
    child,
    async says(line) {
      await until(`a program says ${line}`, () => lines.includes(line) || child.exitCode !== null);
      if (!lines.includes(line)) throw new Error(`it has ended with ${child.exitCode}: ${errors}`);
    },
    async ends() {
      const [code, signal] = await ended;
      return { code, signal, errors, lines };
    },
  };
}
