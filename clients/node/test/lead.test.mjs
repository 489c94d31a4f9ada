// What ends a lead, and how long it pauses. The turns themselves are tested by clients/conformance.

import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { Busy, Closed, Configuration, Locks, Lost, Unavailable } from 'rlock-client';
import { URL, connect, fresh, isFree, program, redis, until, untilWaiting } from './servers.mjs';

const { lead } = createRequire(import.meta.url)('../lead.js');
const locks = await connect({ lease: 1_500 });

test('aborted while it waits, it ends with the reason', async () => {
  const name = fresh(), held = await locks.lock(name).acquire(), reason = new Error('deploy'), gone = new AbortController();
  const ends = locks.lead(name, { signal: gone.signal }, () => assert.fail('it leads'));
  await untilWaiting(name, 1);
  gone.abort(reason);
  await assert.rejects(ends, thrown => thrown === reason);
  await held.release();
  await assert.rejects(locks.lead(name, { signal: AbortSignal.abort(reason) }, () => {}), thrown => thrown === reason);
});

test('aborted while it leads, it ends after the work, and the lock is free', async () => {
  const name = fresh(), gone = new AbortController(), reason = new Error('deploy');
  let hasEnded = false;
  const ends = locks.lead(name, { signal: gone.signal }, async ({ signal }) => {
    gone.abort(reason);
    assert.equal(signal.reason, reason);
    for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
    hasEnded = true;
  });
  await assert.rejects(ends, thrown => thrown === reason && hasEnded);
  assert.equal(await isFree(name), true);
});

// A loss or an outage of its own lock does not end the lead. The same error about another lock is the work's own.
for (const problem of [new Error('no ink'), new Lost('other'), new Unavailable('other'), new Busy('other')]) {
  test(`the work's own ${problem.name} ends it`, async () => {
    const name = fresh();
    await assert.rejects(locks.lead(name, () => { throw problem; }), thrown => thrown === problem && thrown.cause === undefined);
    assert.equal(await isFree(name), true);
  });
}

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
  for (const options of [{ wait: 1 }, { maxWaiters: 1 }, { leas: 1 }]) {
    await assert.rejects(locks.lead(fresh(), options, () => {}), Configuration);
  }
  await assert.rejects(locks.lead(fresh()), TypeError);
});

test('close ends it in a pause', async () => {
  const own = await Locks.connect(URL, { patience: 20, answerTimeout: 20 }), name = fresh();
  let failures = 0;
  const listen = ({ names }) => { if (names[0] === name) failures++; };
  subscribe('rlock:wait', listen);
  await redis.sendCommand(['CLIENT', 'PAUSE', '20000', 'WRITE']);
  try {
    const ends = assert.rejects(own.lead(name, () => {}), Closed);
    await until('it pauses for long', () => failures > 3);
    await Promise.all([own.close({ timeout: 100 }), ends]);
  } finally {
    await redis.sendCommand(['CLIENT', 'UNPAUSE']);
    unsubscribe('rlock:wait', listen);
  }
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
