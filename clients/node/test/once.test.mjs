// Answers in JavaScript: bytes, JSON, signals. clients/conformance tests which caller works and which gets the answer.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { Closed, Configuration, Locks, Lost } from 'rlock-client';
import { URL, connect, fresh, isFree, program, redis } from './servers.mjs';

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

test('the first call does the work, and later calls get its answer as bytes', async () => {
  for (const answer of ['piñata', '', Buffer.from([0, 255, 10]), new Uint8Array([1, 2]).subarray(1)]) {
    const key = fresh(), expected = Buffer.from(answer);
    assert.deepEqual(await locks.once(key, { keep }, () => answer), expected);
    assert.deepEqual(await locks.once(key, { keep }, never), expected);
    assert.deepEqual(await other.once(key, { keep, wait: 0 }, never), expected);
    assert.equal(await isFree(key), true);
  }
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

test('what the work throws is thrown to its own caller, and nothing is stored', async () => {
  const key = fresh(), problem = new Error('no ink');
  await assert.rejects(locks.once(key, { keep }, () => { throw problem; }), thrown => thrown === problem && thrown.cause === undefined);
  for (const nothing of [undefined, null, 42]) {
    await assert.rejects(locks.once(key, { keep }, () => nothing), Configuration);
  }
  assert.equal(await stored(key), null);
  assert.equal(await isFree(key), true);
});

test('work that goes on after its lock is gone stores nothing', async () => {
  const key = fresh(), late = locks.once(key, { keep }, async ({ signal }) => {
    await redis.del(key);
    if (!signal.aborted) await once(signal, 'abort');
    return 'late';
  });
  await assert.rejects(late, Lost);
  await assert.rejects(locks.once(key, { keep }, held => held.release().then(() => 'late')), Lost);
  assert.equal(await stored(key), null);
});

test('aborted while it shares, a call ends with the reason', async () => {
  const key = fresh(), reason = new Error('the user went away'), gone = new AbortController();
  let aborted;
  const answer = await locks.once(key, { keep }, async () => {
    aborted = assert.rejects(locks.once(key, { keep, signal: gone.signal }, never), thrown => thrown === reason);
    await turns(1);
    gone.abort(reason);
    await aborted;
    return 'found';
  });
  assert.equal(String(answer), 'found');
  await assert.rejects(locks.once(key, { keep, signal: AbortSignal.abort(reason) }, never), thrown => thrown === reason);
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

test('an answer that is under way when the client is closed is stored', async () => {
  const own = await Locks.connect(URL), key = fresh();
  let ends;
  await new Promise(begun => {
    ends = own.once(key, { keep }, () => {
      begun();
      return 'found';
    });
  });
  await turns(1); // the answer is sent
  await own.close();
  assert.equal(String(await ends), 'found');
  assert.equal(await stored(key), 'found');
  for (const late of [own.once(key, { keep }, never), own.forget(key)]) await assert.rejects(late, Closed);
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

test('mistakes are refused', async () => {
  const key = fresh();
  for (const options of [undefined, {}, { keep: 0 }, { keep: 0.5 }, { keep: Infinity }, { keep, fenced: true }, { keep, owner: 'a' },
    { keep, wait: -1 }, { keep, maxWaiters: 0 }, { keep, leas: 1 }]) {
    await assert.rejects(locks.once(key, options, never), Configuration);
    await assert.rejects(locks.onceJson(key, options, never), Configuration);
  }
  for (const name of [undefined, 42, '']) await assert.rejects(locks.once(name, { keep }, never), Configuration);
  await assert.rejects(locks.forget(42), Configuration);
});

test('with a function it is once() of an EventEmitter', async () => {
  const emitted = [];
  assert.equal(locks.once('news', (...news) => emitted.push(news)), locks);
  locks.emit('news', 1, 2);
  locks.emit('news', 3);
  assert.deepEqual(emitted, [[1, 2]]);
});
