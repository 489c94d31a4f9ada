// once: the answer of the call that leads is every call's answer, and what goes wrong is its own caller's problem.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { Busy, Closed, Configuration, Locks, Lost, Refused } from 'rlock-client';
import { URL, connect, fresh, isFree, program, redis, untilFree, untilWaiting } from './servers.mjs';

const locks = await connect({ lease: 1_500 }), other = await connect({ lease: 1_500 });
const keep = 60_000;

const stored = key => redis.get(`rlock_answer:{${key}}`);
const turns = async count => { for (; count > 0; count--) await new Promise(setImmediate); };
const never = () => assert.fail('it has an answer');

// How often the server was asked.
async function requests(command) {
  const stats = await redis.info('commandstats');
  return Number(stats.match(new RegExp(`cmdstat_rlock\\.${command}:calls=(\\d+)`))?.[1] ?? 0);
}

// A call whose work ends when the test says so.
async function leading(key, options, client = locks) {
  let work;
  const begun = new Promise(hasBegun => {
    work = held => new Promise((resolve, reject) => {
      held.signal.addEventListener('abort', () => reject(held.signal.reason));
      hasBegun({ held, resolve, reject });
    });
  });
  const ends = client.once(key, { keep, ...options }, work);
  return { ends, ...await begun };
}

test('the first call does the work, and later calls get its answer as bytes', async () => {
  for (const answer of ['piñata', '', Buffer.from([0, 255, 10]), new Uint8Array([1, 2]).subarray(1)]) {
    const key = fresh(), expected = Buffer.from(answer);
    assert.deepEqual(await locks.once(key, { keep }, () => answer), expected);
    assert.deepEqual(await locks.once(key, { keep }, never), expected);
    assert.deepEqual(await other.once(key, { keep, wait: 0 }, never), expected);
    assert.equal(await isFree(key), true);
  }
});

test('the answer is kept for `keep`', async () => {
  const key = fresh();
  await locks.once(key, { keep: 5_000 }, () => 'a');
  const left = await redis.pTTL(`rlock_answer:{${key}}`);
  assert.ok(left > 0 && left <= 5_000, `${left}`);
});

test('100 calls share one request, and each has bytes of its own', async () => {
  const key = fresh(), asked = await requests('once'), answered = await requests('answer');
  let works = 0;
  const work = async () => {
    works++;
    await turns(20);
    return 'shared';
  };
  const answers = await Promise.all(Array.from({ length: 100 }, () => locks.once(key, { keep }, work)));
  assert.equal(works, 1);
  assert.ok(answers.every(answer => answer.equals(Buffer.from('shared'))));
  answers[0].fill(0);
  assert.equal(String(answers[99]), 'shared');
  assert.deepEqual([await requests('once') - asked, await requests('answer') - answered], [1, 1]);
});

test('calls of another client wait in the queue for the answer', async () => {
  const key = fresh(), { ends, resolve } = await leading(key);
  const waiting = Array.from({ length: 10 }, () => other.once(key, { keep }, never));
  await untilWaiting(key, 1);
  resolve('found');
  assert.deepEqual((await Promise.all([ends, ...waiting])).map(String), Array(11).fill('found'));
});

test('what the work throws is thrown to its own caller, and the next call does its own work', async () => {
  const key = fresh(), problem = new Error('no ink'), { ends, reject } = await leading(key);
  const next = locks.once(key, { keep }, () => 'second'), last = locks.once(key, { keep }, never);
  reject(problem);
  await assert.rejects(ends, thrown => thrown === problem && thrown.cause === undefined);
  assert.deepEqual((await Promise.all([next, last])).map(String), ['second', 'second']);
});

test('after work that fails nothing is stored, and the lock is free', async () => {
  const key = fresh();
  await assert.rejects(locks.once(key, { keep }, () => { throw new Error('no ink'); }), { message: 'no ink' });
  for (const nothing of [undefined, null, 42]) {
    await assert.rejects(locks.once(key, { keep }, () => nothing), Configuration);
  }
  await assert.rejects(locks.once(key, { keep }, () => Buffer.alloc(9 * 2 ** 20)), Refused); // longer than rlock.max-answer
  await untilFree(key);
  assert.equal(await stored(key), null);
});

test('a lock that is lost during the work stops it, and the next call leads', async () => {
  const key = fresh(), { ends, held } = await leading(key);
  const next = locks.once(key, { keep }, () => 'second');
  await redis.del(key);
  await assert.rejects(ends, thrown => thrown instanceof Lost && thrown === held.signal.reason && thrown.reason === 'not-held');
  assert.equal(String(await next), 'second');
});

test('an answer that comes after the loss is not stored', async () => {
  const key = fresh(), late = locks.once(key, { keep }, async ({ signal }) => {
    await redis.del(key);
    if (!signal.aborted) await once(signal, 'abort');
    return 'late';
  });
  await assert.rejects(late, Lost);
  // Here the client does not know of the loss before the server replies.
  await assert.rejects(locks.once(key, { keep }, () => redis.del(key).then(() => 'late')), Lost);
  await assert.rejects(locks.once(key, { keep }, async held => {
    await held.release();
    return 'late';
  }), Lost);
  assert.equal(await stored(key), null);
  assert.equal(await isFree(key), true);
});

test('a call that is aborted in the queue leaves it, and the next call of its client waits', async () => {
  const key = fresh(), { ends, resolve } = await leading(key, {}, other);
  const gone = new AbortController(), reason = new Error('the user went away');
  const first = locks.once(key, { keep, signal: gone.signal }, never), second = locks.once(key, { keep }, never);
  await untilWaiting(key, 1);
  gone.abort(reason);
  await assert.rejects(first, thrown => thrown === reason);
  await untilWaiting(key, 1);
  resolve('found');
  assert.deepEqual([String(await ends), String(await second)], ['found', 'found']);
  await assert.rejects(locks.once(key, { keep, signal: AbortSignal.abort(reason) }, never), thrown => thrown === reason);
});

test('calls that share have limits and signals of their own', async () => {
  const key = fresh(), { ends, resolve } = await leading(key);
  const gone = new AbortController(), asked = await requests('once');
  const aborted = assert.rejects(locks.once(key, { keep, signal: gone.signal }, never), { name: 'AbortError' });
  const patient = locks.once(key, { keep, wait: 30_000 }, never);
  await assert.rejects(locks.once(key, { keep, wait: 10 }, never), Busy);
  gone.abort();
  await aborted;
  assert.equal(await requests('once') - asked, 0);
  await assert.rejects(locks.once(key, { keep, wait: 0 }, never), Busy); // asks the server itself
  assert.equal(await requests('once') - asked, 1);
  resolve('found');
  assert.deepEqual([String(await ends), String(await patient)], ['found', 'found']);
});

test('aborted while it leads, the work is stopped and the next call leads', async () => {
  const key = fresh(), gone = new AbortController(), { ends } = await leading(key, { signal: gone.signal });
  const next = locks.once(key, { keep }, () => 'second');
  gone.abort();
  await assert.rejects(ends, { name: 'AbortError' });
  assert.equal(String(await next), 'second');
});

test('when a program that leads is killed, a waiter leads', async () => {
  const key = fresh(), leader = program(`
    import { Locks } from 'rlock-client';
    const locks = await Locks.connect(process.env.RLOCK_URL, { lease: 500 });
    const alive = setInterval(() => {}, 1_000);
    await locks.once('${key}', { keep: 60_000 }, () => { console.log('leads'); return new Promise(() => {}); });
  `);
  await leader.says('leads');
  const next = locks.once(key, { keep }, () => 'second');
  await untilWaiting(key, 1);
  leader.child.kill('SIGKILL');
  assert.equal(String(await next), 'second');
});

test('a call that shares keeps the process alive', async () => {
  const { code, lines, errors } = await program(`
    import { Locks } from 'rlock-client';
    const locks = await Locks.connect(process.env.RLOCK_URL), options = { keep: 60_000 };
    const work = () => new Promise(resolve => setTimeout(resolve, 100, 'found').unref());
    await Promise.all([1, 2].map(() => locks.once('${fresh()}', options, work)));
    console.log('both');
  `).ends();
  assert.deepEqual([code, lines], [0, ['both']], errors);
});

test('close ends a call that leads, one that shares, and one that waits', async () => {
  const own = await Locks.connect(URL), key = fresh(), busy = fresh();
  const elsewhere = await leading(busy, {}, other), leader = await leading(key, {}, own);
  const calls = [leader.ends, own.once(key, { keep }, never), own.once(busy, { keep }, never), own.once(busy, { keep }, never)];
  await untilWaiting(busy, 1);
  const ended = Promise.all(calls.map(call => assert.rejects(call, Closed)));
  await Promise.all([own.close(), ended]);
  await untilWaiting(busy, 0);
  assert.equal(await isFree(key), true);
  assert.equal(await stored(key), null);
  for (const late of [own.once(key, { keep }, never), own.forget(key)]) await assert.rejects(late, Closed);
  elsewhere.resolve('found');
  await elsewhere.ends;
});

test('an answer that is under way when the client is closed is stored', async () => {
  const own = await Locks.connect(URL), key = fresh(), { ends, resolve } = await leading(key, {}, own);
  resolve('found');
  await turns(1); // it is sent
  await own.close();
  assert.equal(String(await ends), 'found');
  assert.equal(await stored(key), 'found');
});

test('onceJson gives each call a value of its own', async () => {
  const key = fresh(), value = { name: 'piñata', parts: [1, null, { a: 1.5 }] };
  const [own, shared] = await Promise.all([locks.onceJson(key, { keep }, async () => value), locks.onceJson(key, { keep }, never)]);
  const later = await other.onceJson(key, { keep }, never);
  assert.deepEqual([own, shared, later], [value, value, value]);
  assert.equal(new Set([value, own, shared, later]).size, 4);
  assert.equal(await locks.onceJson(fresh(), { keep }, () => {}), null);
  await assert.rejects(locks.onceJson(fresh(), { keep }, () => 1n), TypeError);
});

test('forget removes the answer', async () => {
  for (const [key, at] of [[fresh(), key => `rlock_answer:{${key}}`], [`{${fresh()}}:x`, key => `rlock_answer:${key}`]]) {
    await locks.once(key, { keep }, () => 'first');
    assert.equal(await redis.get(at(key)), 'first');
    await locks.forget(key);
    assert.equal(String(await locks.once(key, { keep }, () => 'second')), 'second');
    await locks.forget(key);
    await locks.forget(key); // there is none
  }
});

test('mistakes are refused before anything is sent', async () => {
  const key = fresh(), asked = await requests('once');
  for (const options of [undefined, {}, { keep: 0 }, { keep: 0.5 }, { keep: Infinity }, { keep, fenced: true }, { keep, owner: 'a' },
    { keep, wait: -1 }, { keep, maxWaiters: 0 }, { keep, leas: 1 }]) {
    await assert.rejects(locks.once(key, options, never), Configuration);
    await assert.rejects(locks.onceJson(key, options, never), Configuration);
  }
  for (const name of [undefined, 42, '']) await assert.rejects(locks.once(name, { keep }, never), Configuration);
  await assert.rejects(locks.forget(42), Configuration);
  assert.equal(await requests('once'), asked);
});
