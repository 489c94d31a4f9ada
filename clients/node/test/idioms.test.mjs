// What people write every day: a callback, a guard of their own, and each kind of lock.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Busy, Locks } from 'rlock-client';
import { CLUSTER_URL, connect, fresh, isFree, redis, until, untilFree, untilWaiting, waiters } from './servers.mjs';

const locks = await connect();

test('the lock is held around the work, and then free', async () => {
  const name = fresh();
  const result = await locks.using(name, async held => {
    assert.equal(await isFree(name), false);
    assert.deepEqual(await redis.hKeys(name), [held.holder]);
    assert.ok(held.holder.startsWith(locks.identity));
    assert.ok(held.remaining > 29_000 - 1_000 && held.remaining < 30_000);
    assert.equal(held.lost, false);
    held.check();
    return 'done';
  });
  assert.equal(result, 'done');
  assert.equal(await isFree(name), true);
});

test('a fencing token grows, and is a number that JavaScript can have', async () => {
  const name = fresh();
  const token = () => locks.using(name, { fenced: true, wait: 10_000 }, ({ token }) => token);
  const [first, second] = [await token(), await token()];
  assert.ok(Number.isSafeInteger(first) && second > first);
  assert.equal(await locks.using(name, ({ token }) => token), undefined);
});

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

test('who comes first is served first', async () => {
  const name = fresh(), order = [];
  const held = await locks.lock(name).acquire();
  const works = [];
  for (const number of [1, 2, 3]) {
    works.push(locks.using(name, () => order.push(number)));
    await untilWaiting(name, number);
  }
  await held.release();
  await Promise.all(works);
  assert.deepEqual(order, [1, 2, 3]);
});

test('readers share, a writer does not', async () => {
  const name = fresh();
  const [ann, bob] = await Promise.all([locks.read(name).acquire(), locks.read(name).acquire()]);
  assert.equal(await locks.write(name).tryAcquire(), null);
  await Promise.all([ann.release(), bob.release()]);
  const writing = await locks.write(name).acquire();
  assert.equal(await locks.read(name).tryAcquire(), null);
  await writing.release();
});

test('at most so many permits', async () => {
  const name = fresh(), permit = locks.permit(name, 2);
  const [ann, bob] = await Promise.all([permit.acquire(), permit.acquire()]);
  assert.equal(await permit.tryAcquire(), null);
  await ann.release();
  const cid = await permit.tryAcquire();
  await Promise.all([bob.release(), cid.release()]);
});

test('several locks, all or none', async () => {
  const [a, b] = [fresh(), fresh()];
  const held = await locks.all([a, b], { fenced: true }).acquire();
  assert.equal(held.tokens.length, 2);
  assert.equal(held.token, held.tokens[0]);
  assert.equal(await locks.lock(b).tryAcquire(), null);
  await held.release();
  await locks.using([a, b], async () => assert.equal(await isFree(b), false));
  await untilFree(b);
});

test('an owner takes it again', async () => {
  const name = fresh(), lock = locks.lock(name, { owner: 'ann' });
  const first = await lock.acquire(), second = await lock.acquire();
  await first.release();
  assert.equal(await isFree(name), false);
  await second.release();
  assert.equal(await isFree(name), true);
});

test('a name of any bytes', async () => {
  const name = Buffer.from([0, 255, 10]);
  await locks.using(name, async () => assert.equal(await isFree(name), false));
  assert.equal(await isFree(name), true);
});

test('the lease is renewed, unless it is fixed', async () => {
  const [kept, fixed] = [fresh(), fresh()];
  const [held, brief] = await Promise.all([
    locks.lock(kept, { lease: 1_500 }).acquire(), locks.lock(fixed, { lease: 300, fixed: true }).acquire(),
  ]);
  await until('the fixed one is lost', () => brief.lost);
  const lostAfter = held.remaining;
  await until('it was renewed since', () => held.remaining > lostAfter);
  assert.equal(held.lost, false);
  await held.release();
});

test('a hundred waits have three connections at most', async () => {
  const name = fresh(), own = await connect({ name: `count-${process.pid}` });
  const held = await own.lock(name).acquire();
  const works = Array.from({ length: 100 }, () => own.using(name, () => {}));
  await untilWaiting(name, 100);
  const mine = async () => (await redis.sendCommand(['CLIENT', 'LIST'])).split('\n')
    .filter(line => line.includes(` name=count-${process.pid} `)).length;
  assert.ok((await mine()) <= 3);
  await held.release();
  await Promise.all(works);
  assert.ok((await mine()) <= 3);
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
  await held.release();
  await untilFree(name);
  assert.equal(await waiters(name), 0);
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

test('in a cluster each lock is where its slot is', { skip: !CLUSTER_URL }, async () => {
  const cluster = await Locks.connectToCluster([CLUSTER_URL]);
  const names = Array.from({ length: 20 }, fresh);
  await Promise.all(names.map(name => cluster.using(name, { wait: 10_000 }, held => held.check())));
  await cluster.using([`{${names[0]}}a`, `{${names[0]}}b`], held => held.check());
  await cluster.close();
});
