// lead: one client of many does the work, until its signal, its work's own error, or a mistake ends it.

import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { Busy, Closed, Configuration, Locks, Lost, Unavailable, WrongKind } from 'rlock-client';
import { URL, connect, fresh, isFree, program, redis, until, untilFree, untilWaiting } from './servers.mjs';

const { lead } = createRequire(import.meta.url)('../lead.js');
const locks = await connect({ lease: 1_500 });

// A lead whose turns end when the test says so.
function leading(options, client = locks, name = fresh()) {
  const turns = [], gone = new AbortController();
  const ends = client.lead(name, { signal: gone.signal, ...options }, held => new Promise((resolve, reject) => {
    turns.push({ held, resolve, reject });
    held.signal.addEventListener('abort', () => reject(held.signal.reason));
  }));
  return { name, turns, gone, ends, hasTurns: count => until(`turn ${count}`, () => turns.length === count) };
}

test('when a turn ends, the next client leads, and then this one again', async () => {
  const { name, turns, gone, ends, hasTurns } = leading({ fenced: true });
  await hasTurns(1);
  const other = leading({}, locks, name);
  await untilWaiting(name, 1);
  turns[0].resolve();
  await other.hasTurns(1);
  await untilWaiting(name, 1); // at the end of the queue
  other.turns[0].resolve();
  await hasTurns(2);
  assert.ok(turns[1].held.token > turns[0].held.token);
  gone.abort();
  other.gone.abort();
  await Promise.all([ends, other.ends].map(end => assert.rejects(end, { name: 'AbortError' })));
  await untilFree(name);
});

test('aborted while it waits, it leaves the queue', async () => {
  const name = fresh(), held = await locks.lock(name).acquire(), reason = new Error('deploy');
  const { gone, ends, turns } = leading({}, locks, name);
  await untilWaiting(name, 1);
  gone.abort(reason);
  await assert.rejects(ends, thrown => thrown === reason);
  await untilWaiting(name, 0);
  await held.release();
  assert.equal(turns.length, 0);
  await assert.rejects(locks.lead(name, { signal: AbortSignal.abort(reason) }, () => {}), thrown => thrown === reason);
});

test('aborted while it leads, it ends after the work, and the lock is free', async () => {
  const name = fresh(), gone = new AbortController(), reason = new Error('deploy');
  let hasBegun, hasEnded = false;
  const begun = new Promise(resolve => { hasBegun = resolve; });
  const ends = locks.lead(name, { signal: gone.signal }, async ({ signal }) => {
    hasBegun();
    await once(signal, 'abort');
    assert.equal(signal.reason, reason);
    for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
    hasEnded = true;
  });
  await begun;
  gone.abort(reason);
  await assert.rejects(ends, thrown => thrown === reason && hasEnded);
  assert.equal(await isFree(name), true);
});

// A loss or an outage of this lock is waited out. The same error of another lock is the work's own.
for (const problem of [new Error('no ink'), new Lost('other'), new Unavailable('other'), new Busy('other')]) {
  test(`the work's own ${problem.name} ends it`, async () => {
    const { name, turns, ends, hasTurns } = leading();
    await hasTurns(1);
    turns[0].reject(problem);
    await assert.rejects(ends, thrown => thrown === problem && thrown.cause === undefined);
    assert.equal(await isFree(name), true);
  });
}

test('after a loss it leads again', async () => {
  const { name, turns, gone, ends, hasTurns } = leading();
  const losses = [], listen = loss => { if (loss.names[0] === name) losses.push(loss.error); };
  locks.on('lost', listen);
  await hasTurns(1);
  await redis.del(name);
  await hasTurns(2);
  assert.deepEqual([turns[0].held.lost, turns[1].held.lost], [true, false]);
  gone.abort();
  await assert.rejects(ends, { name: 'AbortError' });
  locks.off('lost', listen);
  assert.deepEqual(losses, [turns[0].held.signal.reason]);
});

test('an error that the work throws at a loss does not end it', async () => {
  const name = fresh(), gone = new AbortController();
  let turns = 0;
  const ends = locks.lead(name, { signal: gone.signal }, async ({ signal }) => {
    if (++turns === 2) return gone.abort();
    await redis.del(name);
    if (!signal.aborted) await once(signal, 'abort');
    throw new Error('half done');
  });
  await assert.rejects(ends, { name: 'AbortError' });
  assert.equal(turns, 2);
});

test('an unavailable server is waited out', async () => {
  const impatient = await connect({ patience: 100, answerTimeout: 100, lease: 1_500 }), name = fresh();
  const failures = [], listen = ({ names, error }) => { if (names[0] === name && error) failures.push(error); };
  subscribe('rlock:wait', listen);
  await redis.sendCommand(['CLIENT', 'PAUSE', '20000', 'WRITE']);
  const { gone, ends, hasTurns } = leading({}, impatient, name);
  try {
    await until('it has failed twice', () => failures.length === 2);
    assert.ok(failures.every(error => error instanceof Unavailable), `${failures}`);
  } finally {
    await redis.sendCommand(['CLIENT', 'UNPAUSE']);
    unsubscribe('rlock:wait', listen);
  }
  await hasTurns(1);
  gone.abort();
  await assert.rejects(ends, { name: 'AbortError' });
});

test('pauses grow up to 5 s, and begin again after a turn', async () => {
  const outage = Array(9).fill(new Unavailable('down')), enough = new Error('enough'), pauses = [];
  const turn = { around: async work => work(), started: 0 };
  const outcomes = [...outage, turn, outage[0], { around: async () => { throw new Lost('gone'); }, started: 0 }, enough];
  const lock = {
    async acquire() {
      const outcome = outcomes.shift();
      if (outcome instanceof Error) throw outcome;
      return outcome;
    },
  };
  await assert.rejects(lead(lock, undefined, () => {}, async time => { pauses.push(time); }), thrown => thrown === enough);
  assert.deepEqual(pauses, [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 50, 50]);
});

test('a mistake ends it', async () => {
  const name = fresh(), reader = await locks.read(name).acquire();
  await assert.rejects(locks.lead(name, () => {}), WrongKind);
  await reader.release();
  for (const options of [{ wait: 1 }, { maxWaiters: 1 }, { leas: 1 }]) {
    await assert.rejects(locks.lead(name, options, () => {}), Configuration);
  }
  await assert.rejects(locks.lead(name), TypeError);
  await untilFree(name);
});

test('close ends it: in the queue, in a turn, and in a pause', async () => {
  const own = await Locks.connect(URL, { patience: 20, answerTimeout: 20 }), held = await locks.lock(fresh()).acquire();
  const waiting = leading({}, own, held.names[0]), working = leading({}, own);
  await Promise.all([untilWaiting(waiting.name, 1), working.hasTurns(1)]);
  await redis.sendCommand(['CLIENT', 'PAUSE', '20000', 'WRITE']);
  try {
    let failures = 0;
    const name = fresh(), listen = ({ names }) => { if (names[0] === name) failures++; };
    subscribe('rlock:wait', listen);
    const pausing = leading({}, own, name);
    await until('it pauses for long', () => failures > 3);
    unsubscribe('rlock:wait', listen);
    const closed = own.close({ timeout: 100 });
    await Promise.all([waiting, working, pausing].map(({ ends }) => assert.rejects(ends, Closed)));
    await closed;
  } finally {
    await redis.sendCommand(['CLIENT', 'UNPAUSE']);
  }
  await held.release();
});

test('a lead keeps the process alive while it waits', async () => {
  const name = fresh(), held = await locks.lock(name).acquire();
  const other = program(`
    import { Locks } from 'rlock-client';
    const locks = await Locks.connect(process.env.RLOCK_URL), gone = new AbortController();
    await locks.lead('${name}', { signal: gone.signal }, () => gone.abort()).catch(() => console.log('led'));
  `);
  await untilWaiting(name, 1);
  await held.release();
  const { code, lines, errors } = await other.ends();
  assert.deepEqual([code, lines], [0, ['led']], errors);
});
