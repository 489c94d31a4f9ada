// What an error shows: its code, its stack, and the mistake that was made.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as rlock from 'rlock-client';
import { URL as SERVER, connect, fresh } from './servers.mjs';

const { Locks } = rlock;
const locks = await connect();

test('an error’s stack has the line that waits for it', async () => {
  const name = fresh(), held = await locks.lock(name).acquire();
  await (async function theLineThatWaits() {
    try {
      await locks.using(name, { wait: 0 }, () => {});
    } catch (error) {
      assert.match(error.stack, /^Busy: .*theLineThatWaits/s);
    }
  })();
  await held.release();
});

const isMistake = message => thrown => {
  assert.ok(thrown instanceof rlock.Configuration && thrown instanceof rlock.LockError, `${thrown}`);
  assert.deepEqual([thrown.name, thrown.code], ['Configuration', 'RLOCK_CONFIGURATION']);
  assert.match(thrown.message, message);
  return true;
};

test('mistakes are reported where they are made', async () => {
  const wrong = isMistake(/./);
  for (const address of ['localhost:6379', 'http://127.0.0.1']) await assert.rejects(Locks.connect(address), wrong);
  await assert.rejects(Locks.connect(SERVER, { timeout: 3 }), isMistake(/^timeout: there is no such option$/));
  await assert.rejects(Locks.connect(SERVER, { lease: '30s' }), isMistake(/^lease: cannot be 30s$/));
  await assert.rejects(Locks.connectToCluster([]), wrong);
  await assert.rejects(Locks.connect(), wrong);
  await assert.rejects(Locks.from({}), wrong);
  for (const options of [{ wait: -1 }, { wait: NaN }, { maxWaiters: 1.5 }, { fenced: 1 }, { signal: 1 }, { waits: 1 }, { lease: Infinity }]) {
    assert.throws(() => locks.lock('a', options), wrong);
    await assert.rejects(locks.lock('a').acquire(options), wrong);
  }
  for (const make of [() => locks.lock(42), () => locks.lock(), () => locks.permit('a', 0), () => locks.all(['a', 1])]) {
    assert.throws(make, wrong);
  }
  await assert.rejects(locks.all([]).acquire(), wrong);
  await assert.rejects(locks.using('a'), TypeError);
  assert.throws(() => locks.all('ab'), wrong); // not two locks
  assert.throws(() => locks.lock('a', { fixed: true }), isMistake(/lease/));
});
