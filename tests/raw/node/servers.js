// The server under test.

import { createClient } from 'redis';

export const PROTOCOLS = [2, 3];

export async function connect(options) {
  const redis = createClient({ url: process.env.RLOCK_URL, ...options });
  redis.on('error', () => {}); // each command's own promise tells of it too
  return redis.connect();
}
