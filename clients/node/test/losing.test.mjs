// How a program in JavaScript learns that its lock is lost. When and why it is lost is tested by clients/conformance.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { test } from 'node:test';
import { Lost } from 'rlock-client';
import { connect, fresh, program, redis } from './servers.mjs';

const locks = await connect({ lease: 1_500 });

const busy = time => { for (const end = performance.now() + time; performance.now() < end;); };
const aborted = signal => signal.aborted || once(signal, 'abort');

test('the signal is aborted, and using fails with the same error', async () => {
  const name = fresh(), reported = once(locks, 'lost');
  let reason;
  const using = locks.using(name, { fenced: true }, async ({ signal }) => {
    await redis.del(name);
    await aborted(signal);
    reason = signal.reason;
    return 'done in spite of it';
  });
  await assert.rejects(using, thrown => thrown instanceof Lost && thrown === reason && thrown.code === 'RLOCK_LOST');
  assert.match(reason.message, new RegExp(`^${name}: lost[:,] .*not held`));
  const [{ names, holder, error }] = await reported;
  assert.deepEqual([names, error], [[name], reason]);
  assert.ok(holder.startsWith(locks.identity));
});

test('what the work throws because of it is the cause, unless it is the loss itself', async () => {
  const name = fresh(), problem = new Error('half done');
  const using = locks.using(name, async ({ signal }) => {
    await redis.del(name);
    await aborted(signal);
    throw problem;
  });
  await assert.rejects(using, thrown => thrown instanceof Lost && thrown.cause === problem);
  const rethrown = locks.using(name, async ({ signal }) => {
    await redis.del(name);
    await aborted(signal);
    signal.throwIfAborted();
  });
  await assert.rejects(rethrown, thrown => thrown instanceof Lost && thrown.cause === undefined);
});

test('using does not fail before the work has ended', async () => {
  const name = fresh();
  let hasEnded = false;
  const using = locks.using(name, async ({ signal }) => {
    await redis.del(name);
    await aborted(signal);
    for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
    hasEnded = true;
  });
  await assert.rejects(using, () => hasEnded);
});

test('a busy event loop sees at once that a lock is lost', async () => {
  const held = await locks.lock(fresh(), { lease: 100, fixed: true }).acquire();
  busy(150);
  // Nothing has been reported in between.
  assert.equal(held.lost, true);
  assert.throws(() => held.check(), Lost);
  assert.ok(held.signal.reason instanceof Lost);
  await assert.rejects(held.release(), Lost);
});

test('a loss is published once', async () => {
  const name = fresh(), losses = [];
  const listen = loss => { if (loss.names[0] === name) losses.push(loss.kind); };
  subscribe('rlock:loss', listen);
  const held = await locks.write(name).acquire();
  await redis.del(name);
  await once(held.signal, 'abort');
  await assert.rejects(held.release(), Lost);
  await assert.rejects(held.release(), Lost);
  unsubscribe('rlock:loss', listen);
  assert.deepEqual(losses, ['write']);
});

test('NODE_DEBUG prints one line for a loss, and one for a permanent error', async () => {
  const name = fresh();
  process.env.NODE_DEBUG = 'rlock';
  const other = program(`
    import { Locks } from 'rlock-client';
    import { once } from 'node:events';
    const locks = await Locks.connect(process.env.RLOCK_URL, { lease: 1_500 });
    const held = await locks.lock('${name}').acquire();
    console.log('held');
    const alive = setInterval(() => {}, 1_000); // what is held keeps nothing alive
    await once(held.signal, 'abort');
    clearInterval(alive);
    await held.release().catch(() => {});
    for (let i = 0; i < 20; i++) await locks.lock('own', { owner: 'mode' }).acquire().catch(() => {});
  `);
  delete process.env.NODE_DEBUG;
  await other.says('held');
  await redis.del(name);
  const { code, errors } = await other.ends();
  assert.equal(code, 0, errors);
  const lines = errors.split('\n').filter(line => line.startsWith('RLOCK '));
  assert.equal(lines.length, 2, errors);
  assert.match(lines[0], /lost/);
  assert.match(lines[1], /owner/);
});
