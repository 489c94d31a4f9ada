// The server for tests, as docs/testing.md shows it.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Busy, Locks } from 'rlock-client';
import { serve, serveAround } from 'rlock-client/testing';

const ship = locks => locks.using('orders:42', { wait: 0 }, () => {});

// snippet: node
const server = serveAround(before, after); // or beforeAll and afterAll

test('one ships at a time', async () => {
  const locks = await Locks.connect(server.url);
  await locks.using('orders:42', async () => { // another one ships it
    await assert.rejects(ship(locks), Busy);
  });
  await ship(locks);
  await locks.close();
});
// end

test('a server has the settings of the module', async () => {
  const other = await serve(['--set', 'max-sessions=0']);
  const locks = await Locks.connect(other.url);
  await locks.using('a', () => assert.rejects(locks.lock('a').acquire(), { code: 'RLOCK_QUEUE_FULL' }));
  await locks.close();
  await other.close();
});

test('what is missing is named', async () => {
  const { PATH, RLOCK_BIN } = process.env;
  try {
    delete process.env.RLOCK_BIN;
    process.env.PATH = '';
    await assert.rejects(serve(), /install the command .* or set RLOCK_BIN/);
  } finally {
    Object.assign(process.env, { PATH }, RLOCK_BIN && { RLOCK_BIN });
  }
});

test('a server that does not start says why', async () => {
  await assert.rejects(serve(['--set', 'no-such=1']), /there is no setting no-such/);
});
