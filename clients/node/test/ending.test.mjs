// The end of a client, a process, a worker. Nothing hangs, nothing crashes, nothing stays behind for longer
// than a lease.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { Closed, Locks } from 'rlock-client';
import { URL, connect, fresh, isFree, program, redis, untilFree, untilWaiting } from './servers.mjs';

const PRELUDE = `
  import { Locks } from 'rlock-client';
  const locks = await Locks.connect(process.env.RLOCK_URL);
`;

test('close ends what is held, and aborts the work under it', async () => {
  const locks = await Locks.connect(URL), held = await locks.lock(fresh()).acquire();
  let hasBegun;
  const begun = new Promise(resolve => { hasBegun = resolve; });
  const working = assert.rejects(locks.using(fresh(), async ({ signal }) => {
    hasBegun();
    await once(signal, 'abort');
    assert.ok(signal.reason instanceof Closed);
  }), Closed);
  await begun;
  await Promise.all([locks.close(), locks.close(), working]);
  assert.throws(() => held.check(), Closed);
  assert.equal(held.remaining, 0);
  await assert.rejects(held.release(), Closed);
});

test('a release that is under way when the client is closed settles', async () => {
  const locks = await Locks.connect(URL), name = fresh(), held = await locks.lock(name).acquire();
  const released = held.release();
  await locks.close();
  await released;
  assert.equal(await isFree(name), true);
});

test('close is bounded, also if the server stalls', async () => {
  const locks = await Locks.connect(URL), name = fresh();
  await locks.lock(name, { lease: 2_000 }).acquire();
  const begun = performance.now();
  await redis.sendCommand(['CLIENT', 'PAUSE', '20000', 'WRITE']);
  try {
    await locks.close({ timeout: 100 });
    assert.ok(performance.now() - begun < 10_000);
  } finally {
    await redis.sendCommand(['CLIENT', 'UNPAUSE']);
  }
  await untilFree(name);
});

test('an open client, and what is held, keep no process alive', async () => {
  const { code, errors } = await program(`${PRELUDE} await locks.lock('${fresh()}', { lease: 1_000 }).acquire();`).ends();
  assert.equal(code, 0, errors);
});

for (const [how, line] of [['by itself', ''], ['by process.exit', 'process.exit();'], ['by an exception', 'throw new Error();']]) {
  test(`a process that ends ${how} releases what it holds`, async () => {
    const name = fresh();
    const { code } = await program(`${PRELUDE}
      await locks.lock('${name}', { lease: 600_000 }).acquire(); console.log('held'); ${line}`).ends();
    assert.equal(code, how === 'by an exception' ? 1 : 0);
    await untilFree(name);
  });
}

test('a wait keeps the process alive', async () => {
  const name = fresh(), locks = await connect(), held = await locks.lock(name).acquire();
  const waiter = program(`${PRELUDE} await locks.using('${name}', () => console.log('mine'));`);
  await untilWaiting(name, 1);
  await held.release();
  const { code, lines, errors } = await waiter.ends();
  assert.deepEqual([code, lines], [0, ['mine']], errors);
});

for (const [what, line] of [
  ['while it waits', 'locks.lock(held).acquire(); setTimeout(() => process.exit(7), 50);'],
  ['while it is being granted', 'locks.lock(free).acquire(); process.exit(7);'],
  ['while much goes on', 'for (let i = 0; i < 500; i++) locks.using(free + i % 9, () => {}); setTimeout(() => process.exit(7), 30);'],
  ['while it gives back', 'locks.lock(free).acquire().then(held => { held.release(); process.exit(7); });'],
  ['while it is being closed', 'await locks.lock(free).acquire(); locks.close(); process.exit(7);'],
  ['while it connects', 'Locks.connect(process.env.RLOCK_URL); process.exit(7);'],
]) {
  test(`process.exit ${what}`, async () => {
    const name = fresh(), locks = await connect({ lease: 3_000 }), held = await locks.lock(name).acquire();
    await Promise.all([1, 2, 3].map(async () => {
      const begun = performance.now();
      const { code, signal, errors } = await program(`${PRELUDE} const held = '${name}', free = '${fresh()}'; ${line}`).ends();
      assert.deepEqual([code, signal], [7, null], errors);
      assert.ok(performance.now() - begun < 10_000);
    }));
    await held.release();
  });
}

// A worker whose line uses a client, `locks`, and a `name`.
const begin = (name, line) => new Worker(`
  const { Locks } = require('rlock-client');
  const { parentPort } = require('node:worker_threads');
  const name = '${name}';
  Locks.connect('${URL}', { lease: 2_000 }).then(async locks => { ${line} });
`, { eval: true });

test('each worker has clients of its own', async () => {
  const name = fresh(), tokens = [];
  const workers = [1, 2, 3].map(() => begin(name, `
    for (let i = 0; i < 50; i++) await locks.using(name, { fenced: true }, ({ token }) => parentPort.postMessage(token));
  `));
  for (const each of workers) each.on('message', token => tokens.push(token));
  await Promise.all(workers.map(each => once(each, 'exit')));
  assert.equal(new Set(tokens).size, 150);
});

test('a worker that is terminated while it waits leaves the queue', async () => {
  const name = fresh(), locks = await connect(), held = await locks.lock(name).acquire();
  const worker = begin(name, 'for (let i = 0; i < 10; i++) locks.using(name, () => {});');
  await untilWaiting(name, 10);
  await worker.terminate();
  await untilWaiting(name, 0);
  await held.release();
  assert.equal(await isFree(name), true);
});

for (const [when, line] of [
  ['in the middle of everything', "for (;;) await Promise.all([1, 2, 3].map(() => locks.using(name + 'x', () => {})));"],
  ['in a busy loop', 'for (;;);'],
]) {
  test(`a worker that is terminated ${when} releases what it holds`, async () => {
    const name = fresh();
    const worker = begin(name, `await locks.lock(name).acquire(); parentPort.postMessage('held'); ${line}`);
    await once(worker, 'message');
    await worker.terminate();
    await Promise.all([untilFree(name), untilFree(`${name}x`)]);
  });
}

test('a program ends if only its worker has a client', async () => {
  const { code, errors, lines } = await program(`
    import { Worker } from 'node:worker_threads';
    const worker = () => new Worker(\`
      const { Locks } = require('rlock-client');
      Locks.connect('${URL}').then(locks => locks.using('${fresh()}', () => console.log('mine')));
    \`, { eval: true, execArgv: [] });
    for (let i = 0; i < 3; i++) await new Promise(ends => worker().on('exit', ends));
    console.log('done');
  `).ends();
  assert.equal(code, 0, errors);
  assert.equal(lines.at(-1), 'done');
});
