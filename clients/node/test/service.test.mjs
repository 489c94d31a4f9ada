// The example is a service that works, also when a lock is taken and when it gets SIGTERM.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { URL, atEnd, connect, fresh, untilWaiting } from './servers.mjs';

test('orders are shipped one at a time', async () => {
  const child = spawn(process.execPath, [join(import.meta.dirname, '../examples/service.mjs')], {
    env: { ...process.env, RLOCK_URL: URL, PORT: '0' }, stdio: ['ignore', 'pipe', 'inherit'],
  });
  atEnd(() => child.kill('SIGKILL'));
  const [line] = await once(createInterface({ input: child.stdout }), 'line');
  const order = fresh(), post = init => fetch(`http://127.0.0.1:${line.split(' ').at(-1)}/orders/${order}/shipment`,
    { method: 'POST', ...init });

  const answers = await Promise.all(Array.from({ length: 5 }, () => post()));
  const times = await Promise.all(answers.map(async answer => (await answer.json()).times));
  assert.deepEqual(times.sort(), [1, 2, 3, 4, 5]);

  const locks = await connect(), held = await locks.lock(`orders:${order}`).acquire();
  const gone = new AbortController(), left = assert.rejects(post({ signal: gone.signal }), { name: 'AbortError' });
  await untilWaiting(`orders:${order}`, 1);
  gone.abort();
  await left;
  await untilWaiting(`orders:${order}`, 0);
  const busy = await post();
  assert.deepEqual([busy.status, busy.headers.get('retry-after')], [503, '1']);
  await held.release();
  assert.equal((await post()).status, 200);

  child.kill('SIGTERM');
  assert.deepEqual(await once(child, 'exit'), [0, null]);
});
