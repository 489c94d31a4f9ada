// What the project's pages show of this client.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Locks } from 'rlock-client';

test('a lock around work', async () => {
  const shipped = [];
  const ship = async (order, token, signal) => { shipped.push([order, token, signal.aborted]); };
  const url = process.env.RLOCK_URL;
  // snippet: lock
  const locks = await Locks.connect(url); // once in a program

  await locks.using('orders:42', { wait: 10_000, fenced: true }, async ({ signal, token }) => { // Busy after 10 s
    await ship('orders:42', token, signal); // the signal is aborted if the lock is lost
  });
  // end
  assert.equal(shipped.length, 1);
  assert.ok(shipped[0][1] > 0 && !shipped[0][2]);
  await locks.close();
});
