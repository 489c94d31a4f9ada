// The idioms of JavaScript: callbacks, AbortSignal, `await using`, bytes. What every client does is tested by clients/conformance.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Busy } from 'rlock-client';
import { connect, fresh, isFree, untilFree, untilWaiting } from './servers.mjs';

const locks = await connect();

test('what the work throws is thrown, and the lock is free', async () => {
  const name = fresh(), problem = new Error('no ink');
  await assert.rejects(locks.using(name, () => { throw problem; }), thrown => thrown === problem && !thrown.cause);
  assert.equal(await isFree(name), true);
});

test('one that is not given to a callback', async () => {
  const name = fresh(), lock = locks.lock(name);
  const held = await lock.acquire();
  assert.equal(await lock.tryAcquire(), null);
  await assert.rejects(lock.acquire({ wait: 30 }), Busy);
  await Promise.all([held.release(), held.release()]);
  assert.equal(held.lost, false);
  assert.equal(held.remaining, 0);
  assert.throws(() => held.check());
  const again = await lock.tryAcquire();
  await again[Symbol.asyncDispose]();
  assert.equal(await isFree(name), true);
});

test('a name of any bytes', async () => {
  const name = Buffer.from([0, 255, 10]);
  await locks.using(name, async () => assert.equal(await isFree(name), false));
  assert.equal(await isFree(name), true);
});

test('a wait that is aborted leaves nothing', async () => {
  const name = fresh(), lock = locks.lock(name), reason = new Error('the user went away');
  const held = await lock.acquire(), controller = new AbortController();
  const waiting = assert.rejects(lock.acquire({ signal: controller.signal }), thrown => thrown === reason);
  await untilWaiting(name, 1);
  controller.abort(reason);
  await waiting;
  await untilWaiting(name, 0);
  await assert.rejects(lock.acquire({ signal: AbortSignal.abort() }), { name: 'AbortError' });
  await assert.rejects(lock.using({ signal: AbortSignal.timeout(20) }, () => {}), { name: 'TimeoutError' });
  await untilWaiting(name, 0);
  await held.release();
  await untilFree(name);
});

test('aborted at any moment, nothing stays held', async () => {
  const name = fresh(), lock = locks.lock(name);
  for (let round = 0; round < 200; round++) {
    const controller = new AbortController();
    const acquiring = lock.acquire({ signal: controller.signal }).then(held => held.release(), () => {});
    for (let turns = round % 20; turns > 0; turns--) await new Promise(setImmediate);
    controller.abort();
    await acquiring;
  }
  await untilFree(name);
  await (await lock.acquire({ wait: 5_000 })).release();
});

test('what is said at the call counts before what was said of the lock', async () => {
  const name = fresh(), held = await locks.lock(name).acquire(), brief = locks.lock(name, { wait: 10 });
  const next = brief.acquire({ wait: Infinity });
  await untilWaiting(name, 1);
  await assert.rejects(brief.acquire(), Busy);
  await held.release();
  await (await next).release();
});

test('the signal that gives up the wait stops the work, too', async () => {
  const controller = new AbortController(), name = fresh();
  const result = await locks.using(name, { signal: controller.signal }, async ({ signal, lost }) => {
    controller.abort('enough');
    return { reason: signal.reason, lost };
  });
  assert.deepEqual(result, { reason: 'enough', lost: false });
  assert.equal(await isFree(name), true);
});
