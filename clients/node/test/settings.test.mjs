// Settings that are taken over from the clients which a program has already.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { Cluster, Redis } from 'ioredis';
import { createClient, createCluster, createSentinel } from 'redis';
import { Configuration, Locks } from 'rlock-client';
import { CLUSTER_URL, URL as SERVER, atEnd, fresh, redis } from './servers.mjs';

const { placeOf } = createRequire(import.meta.url)('../place.js');
const { hostname, port } = new URL(SERVER);
const user = `user-${process.pid}`, password = 'p@ss:w/ord %?#';
await redis.sendCommand(['ACL', 'SETUSER', user, 'on', `>${password}`, '~*', '&*', '+@all']);
atEnd(() => redis.sendCommand(['ACL', 'DELUSER', user]));

// A lock of that client's user, in that database.
async function works(client, db) {
  const locks = await Locks.from(client, { name: user });
  const name = fresh();
  await locks.using(name, async () => {
    const own = createClient({ url: SERVER, database: db });
    await own.connect();
    assert.equal(await own.exists(name), 1);
    assert.match(await own.sendCommand(['CLIENT', 'LIST']), new RegExp(` name=${user} .* user=${user} `));
    own.destroy();
  });
  await locks.close();
}

test('of ioredis', async () => {
  const settings = { host: hostname, port: Number(port), username: user, password, db: 3, lazyConnect: true };
  await works(new Redis(settings), 3);
  const url = new URL(SERVER);
  Object.assign(url, { username: user, password: encodeURIComponent(password), pathname: '/4' });
  await works(new Redis(url.href, { lazyConnect: true }), 4);
});

test('of node-redis', async () => {
  await works(createClient({ socket: { host: hostname, port }, username: user, password, database: 3 }), 3);
  const url = new URL(SERVER);
  Object.assign(url, { username: user, password: encodeURIComponent(password), pathname: '/4' });
  await works(createClient({ url: url.href }), 4);
});

test('of a cluster', { skip: !CLUSTER_URL }, async () => {
  const node = new URL(CLUSTER_URL);
  const ioredis = new Cluster([{ host: node.hostname, port: Number(node.port) }], { lazyConnect: true });
  const nodeRedis = createCluster({ rootNodes: [{ url: CLUSTER_URL }] });
  for (const client of [ioredis, nodeRedis]) {
    const locks = await Locks.from(client);
    await Promise.all(Array.from({ length: 9 }, fresh).map(name => locks.using(name, held => held.check())));
    await locks.close();
  }
});

test('how all of it is written', () => {
  const place = client => placeOf(client).place;
  const lazyConnect = true;
  assert.deepEqual(place(new Redis({ path: '/run/a b.sock', db: 2, password: 'x&y', lazyConnect })),
    { server: 'redis+unix:///run/a%20b.sock?db=2&pass=x%26y' });
  assert.deepEqual(place(new Redis({ host: '::1', port: 1, tls: {}, lazyConnect })), { server: 'rediss://[::1]:1/0' });
  const sentinels = [{ host: 's', port: 1 }, { host: 't' }];
  assert.deepEqual(
    place(new Redis({ sentinels, name: 'm', sentinelPassword: 'z', password: 'q', db: 1, lazyConnect })),
    { sentinels: ['redis://:z@s:1/0', 'redis://:z@t:26379/0'], master: 'm', user: undefined, password: 'q', db: 1, tls: false },
  );
  assert.deepEqual(place(new Cluster([{ host: 'a', port: 1 }, 'redis://b:2', 3], { redisOptions: { password: 'p' }, lazyConnect })),
    { cluster: ['redis://:p@a:1/0', 'redis://b:2', 'redis://:p@127.0.0.1:3/0'] });
  assert.deepEqual(place(createClient({ socket: { path: '/s' }, username: 'u' })), { server: 'redis+unix:///s?db=0&user=u' });
  const { certificates } = placeOf(createClient({ socket: { tls: true, host: 'h', ca: 'A', cert: 'C', key: 'K' } }));
  assert.deepEqual(certificates, { ca: 'A', cert: 'C', key: 'K' });
  assert.deepEqual(place(createCluster({ rootNodes: [{ socket: { host: 'a', port: 1 } }], defaults: { password: 'p' } })),
    { cluster: ['redis://:p@a:1/0'] });
});

test('a client that cannot be taken over is refused', async () => {
  const lazyConnect = true;
  const sentinel = createSentinel({ name: 'm', sentinelRootNodes: [{ host: 's', port: 1 }] });
  for (const client of [
    sentinel, {}, null, new Redis({ tls: { rejectUnauthorized: false }, lazyConnect }),
    createClient({ credentialsProvider: { type: 'async-credentials-provider', credentials: async () => ({}) } }),
  ]) {
    await assert.rejects(Locks.from(client), Configuration);
  }
});
