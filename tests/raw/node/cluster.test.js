// A cluster: each command goes to the lock's own node, and at once.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createCluster } from 'redis';
import { PROTOCOLS } from './servers.js';

for (const RESP of PROTOCOLS) describe(`RESP${RESP}`, () => {
  let cluster;
  before(async () => {
    cluster = await createCluster({ rootNodes: [{ url: process.env.RLOCK_CLUSTER_URL }], RESP }).connect();
    await onEachNode(node => node.flushAll());
    await onEachNode(node => node.configResetStat());
  });
  after(() => cluster.close());

  const onEachNode = async task =>
    Promise.all(cluster.masters.map(async master => task(await cluster.nodeClient(master))));

  test('commands find their node', async () => {
    const keys = Array.from({ length: 30 }, (_, number) => `orders:${number}`);
    for (const key of keys) {
      assert.equal(await cluster.sendCommand(key, false, ['RLOCK.ACQUIRE', key, 'worker-7', '30000']), null);
    }
    const sizes = await onEachNode(node => node.dbSize());
    assert(sizes.every(size => size > 0), `locks are on all nodes: ${sizes}`);
    for (const key of keys) assert.equal(await cluster.sendCommand(key, false, ['RLOCK.RELEASE', key, 'worker-7']), 1);
    const errors = await onEachNode(node => node.info('errorstats'));
    assert(errors.every(text => !text.includes('MOVED')), 'no node had to send the client to another');
  });

  test('a wait finds its node', async () => {
    await cluster.sendCommand('orders:42', false, ['RLOCK.ACQUIRE', 'orders:42', 'worker-7', '1000']);
    // The first argument is the key, which selects the node; false means: not a replica. A cluster client has one
    // connection to each node, so here, too, each wait needs a client of its own.
    const waits = await cluster.duplicate().connect();
    const command = ['RLOCK.ACQUIRE', 'orders:42', 'worker-8', '30000', 'WAIT', '10000'];
    assert.equal(await waits.sendCommand('orders:42', false, command), null);
    await waits.close();
    assert.deepEqual(await cluster.hKeys('orders:42'), ['worker-8']);
  });
});
