// The example answers a repeated request like the first one, and does the work once.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { URL, atEnd, fresh } from './servers.mjs';

// One of two hosts, with payments of its own.
async function host() {
  const child = spawn(process.execPath, [join(import.meta.dirname, '../examples/idempotent.mjs')], {
    env: { ...process.env, RLOCK_URL: URL, PORT: '0' }, stdio: ['ignore', 'pipe', 'ignore'],
  });
  atEnd(() => child.kill('SIGKILL'));
  const [line] = await once(createInterface({ input: child.stdout }), 'line'), port = line.split(' ').at(-1);
  const pay = async (id, amount) => {
    const headers = { 'Content-Type': 'application/json', ...(id && { 'Idempotency-Key': id }) };
    const response = await fetch(`http://127.0.0.1:${port}/payments`, { method: 'POST', headers, body: JSON.stringify({ amount }) });
    return { status: response.status, body: response.status < 500 ? await response.json() : undefined };
  };
  return { child, pay };
}

test('a payment is made once, whichever host is asked', async () => {
  const [one, two] = await Promise.all([host(), host()]), id = fresh();
  const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => (i % 2 ? one : two).pay(id, 5)));
  for (const answer of answers) assert.deepEqual(answer, { status: 201, body: { payment: 1 } });
  assert.deepEqual(await one.pay(id, 5), answers[0]);
  // One of the hosts has made that payment. The next payment is its second one, and the first one of the other host.
  const numbers = await Promise.all([one, two].map(async ({ pay }) => (await pay(fresh(), 5)).body.payment));
  assert.deepEqual(numbers.sort(), [1, 2]);

  assert.equal((await one.pay(id, 6)).status, 422);
  for (const wrong of [undefined, 'short']) assert.equal((await one.pay(wrong, 5)).status, 400);

  const later = fresh();
  assert.equal((await one.pay(later, -1)).status, 500);
  assert.equal((await two.pay(later, 5)).status, 201); // a failure is not stored

  one.child.kill('SIGTERM');
  assert.deepEqual(await once(one.child, 'exit'), [0, null]);
});
