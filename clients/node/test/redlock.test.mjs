// Programs written for the package `redlock`: the same lines. scripts/peers/redlock.sh runs that package's own tests.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { Redis } from 'ioredis';
import Redlock, { ExecutionError, ResourceLockedError } from 'rlock-client/redlock';
import { URL as SERVER, atEnd, fresh, isFree, redis, until, untilFree, untilWaiting } from './servers.mjs';

const client = new Redis(SERVER);
atEnd(() => client.disconnect());

const redlock = new Redlock([client], { retryCount: 50, retryDelay: 20, retryJitter: 0 });

test('acquire, extend, release', async () => {
  const resource = fresh();
  let lock = await redlock.acquire([resource], 5_000);
  assert.deepEqual(lock.resources, [resource]);
  assert.equal(typeof lock.value, 'string');
  assert.ok(lock.expiration > Date.now() + 4_000 && lock.expiration <= Date.now() + 5_000);
  assert.equal(await isFree(resource), false);
  lock = await lock.extend(10_000);
  assert.ok(lock.expiration > Date.now() + 9_000);
  assert.ok(Array.isArray((await lock.release()).attempts));
  assert.equal(lock.expiration, 0);
  assert.equal(await isFree(resource), true);
});

test('one that is taken', async () => {
  const resource = fresh(), lock = await redlock.acquire([resource], 5_000);
  const reported = once(redlock, 'error').catch(error => [error]);
  await assert.rejects(redlock.acquire([resource], 5_000, { retryCount: 0 }), ExecutionError);
  assert.ok((await reported)[0] instanceof ResourceLockedError);
  const next = redlock.acquire([resource], 5_000, { retryCount: -1 });
  await untilWaiting(resource, 1);
  await lock.release();
  await (await next).release();
});

test('several resources, all or none', async () => {
  const [a, b] = [fresh(), fresh()], lock = await redlock.acquire([a, b], 5_000);
  await assert.rejects(redlock.acquire([b], 5_000, { retryCount: 0 }), ExecutionError);
  await redlock.release(lock);
  assert.deepEqual([await isFree(a), await isFree(b)], [true, true]);
});

test('using keeps it for longer than its duration', async () => {
  const resource = fresh();
  const result = await redlock.using([resource], 1_500, { automaticExtensionThreshold: 1_000 }, async signal => {
    const end = Date.now() + 1_600;
    await until('the duration is over', () => Date.now() > end);
    assert.equal(signal.aborted, false);
    assert.equal(await isFree(resource), false);
    return 'done';
  });
  assert.equal(result, 'done');
  assert.equal(await isFree(resource), true);
});

test('using reports a loss', async () => {
  const resource = fresh();
  await assert.rejects(redlock.using([resource], 1_500, { retryCount: 0 }, async signal => {
    await redis.del(resource);
    await until('it is aborted', () => signal.aborted);
    throw signal.error;
  }));
});

test('it ends with its duration', async () => {
  const resource = fresh(), lock = await redlock.acquire([resource], 300);
  await untilFree(resource);
  await assert.rejects(lock.extend(300), ExecutionError);
});

test('extend lengthens the lease at the server', async () => {
  const resource = fresh();
  let lock = await redlock.acquire([resource], 5_000);
  lock = await lock.extend(600_000);
  assert.ok(await redis.pTTL(resource) > 590_000);
  await redis.del(resource);
  await assert.rejects(lock.extend(5_000), ExecutionError);
});

test('a duration that is none', async () => {
  await assert.rejects(redlock.acquire([fresh()], 1.5), /integer/);
});

test('several servers are refused', () => {
  assert.throws(() => new Redlock([client, new Redis(SERVER, { lazyConnect: true })]), { code: 'RLOCK_CONFIGURATION' });
  assert.throws(() => new Redlock([]), { code: 'RLOCK_CONFIGURATION' });
});

// Beyond 2^31 - 1 ms Node's timers fire at once, which would release the lock.
test('a duration of a month', async () => {
  const resource = fresh();
  let lock = await redlock.acquire([resource], 2 ** 31);
  lock = await lock.extend(2 ** 31 + 1);
  await setTimeout(5); // a timer that fires at once has sent its release
  await assert.rejects(redlock.acquire([resource], 5_000, { retryCount: 0 }), ExecutionError);
  await lock.release();
});
