// The servers under test, and what every test looks at: who waits, and who holds a lock.

import { createClient } from 'redis';
import { setImmediate } from 'node:timers/promises';

const PATIENCE_MS = 20_000;

export const PROTOCOLS = [2, 3];

export async function connect(options) {
  const redis = createClient({ url: process.env.RLOCK_URL, ...options });
  redis.on('error', () => {}); // each command's own promise tells of it too
  return redis.connect();
}

export async function untilWaiting(redis, count) {
  const deadline = Date.now() + PATIENCE_MS;
  while (!(await redis.info('rlock')).includes(`rlock_waiters:${count}\r\n`)) {
    if (Date.now() > deadline) throw new Error(`waited in vain until ${count} wait`);
    await setImmediate();
  }
}

export const holders = (redis, key) => redis.hKeys(key);
