// Holds a lock and works until SIGTERM; the next process that waits for the lock then has it at once.
//
// node deploy.mjs redis://127.0.0.1:6379 reports

import { setInterval } from 'node:timers/promises';
import { Locks } from 'rlock-client';

const [, , url, key] = process.argv;
const locks = await Locks.connect(url);
const deploy = new AbortController();
process.once('SIGTERM', () => deploy.abort());

try {
  await locks.using(key, { signal: deploy.signal }, async ({ signal }) => {
    console.log('held');
    for await (const _ of setInterval(1_000, undefined, { signal })); // the work, until the deploy or a loss
  });
} catch (error) {
  if (!deploy.signal.aborted) throw error;
} finally {
  await locks.close();
}
