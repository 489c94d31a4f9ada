// Every reply and error that does not wait, as node-redis gives them.

import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { PROTOCOLS, connect } from './servers.js';

for (const RESP of PROTOCOLS) describe(`RESP${RESP}`, () => {
  let redis;
  before(async () => { redis = await connect({ RESP }); });
  beforeEach(() => redis.flushAll());
  after(() => redis.close());

  const run = command => redis.sendCommand(command.split(' '));

  test('a lock is its holder’s', async () => {
    // snippet: send
    // sendCommand sends any command, as strings, and returns its reply unchanged.
    assert.equal(await redis.sendCommand(['RLOCK.ACQUIRE', 'orders:42', 'worker-7', '30000']), null); // granted
    const left = await redis.sendCommand(['RLOCK.ACQUIRE', 'orders:42', 'worker-8', '30000']);
    assert(0 < left && left <= 30000); // not granted: the ms that are left of the lease
    assert.equal(await redis.sendCommand(['RLOCK.RELEASE', 'orders:42', 'worker-7']), 1); // free
    // end
  });

  test('a release has three replies', async () => {
    for (let hold = 0; hold < 2; hold++) assert.equal(await run('RLOCK.ACQUIRE k ann 30000'), null);
    assert.equal(await run('RLOCK.RELEASE k bob'), null);
    assert.equal(await run('RLOCK.RELEASE k ann'), 0);
    assert.equal(await run('RLOCK.RELEASE k ann'), 1);
    assert.equal(await run('RLOCK.RELEASE k ann'), null);
  });

  test('ALL gives back every hold', async () => {
    for (let hold = 0; hold < 2; hold++) assert.equal(await run('RLOCK.ACQUIRE k ann 30000'), null);
    assert.equal(await run('RLOCK.RELEASE k ann ALL'), 1);
    assert.equal(await run('RLOCK.RELEASE k ann ALL'), null);
  });

  test('tokens grow', async () => {
    const [refused, token] = await redis.sendCommand(['RLOCK.ACQUIRE', 'orders:42', 'worker-7', '30000', 'FENCED']);
    assert(refused === null && token > 0);
    const [left, none] = await run('RLOCK.ACQUIRE orders:42 worker-8 30000 FENCED');
    assert(0 < left && left <= 30000 && none === null);
    assert.deepEqual(await run('RLOCK.ACQUIRE orders:42 worker-7 30000 FENCED'), [null, 2]);
  });

  test('renewing restarts the lease', async () => {
    await run('RLOCK.ACQUIRE k ann 30000');
    assert.equal(await run('RLOCK.RENEW k ann 300000'), 1);
    assert(await redis.pTTL('k') > 30000);
    assert.equal(await run('RLOCK.RENEW k bob 30000'), 0);
  });

  test('readers share, and a writer excludes', async () => {
    assert.equal(await run('RLOCK.RACQUIRE k ann 30000'), null);
    assert.equal(await run('RLOCK.RACQUIRE k bob 30000'), null);
    assert(await run('RLOCK.WACQUIRE k cid 30000') > 0);
    assert.equal(await run('RLOCK.RELEASE k ann READ'), 0);
    assert.equal(await run('RLOCK.RELEASE k bob READ'), 1);
    assert.equal(await run('RLOCK.WACQUIRE k cid 30000'), null);
    assert(await run('RLOCK.RACQUIRE k ann 30000') > 0);
    assert.equal(await run('RLOCK.RELEASE k cid WRITE'), 1);
  });

  test('errors name what is wrong', async () => {
    await run('RLOCK.RACQUIRE orders:42 worker-7 30000');
    await assert.rejects(redis.sendCommand(['RLOCK.ACQUIRE', 'orders:42', 'worker-8', '30000']),
      { name: 'Error', message: /^WRONGKIND / });
    await assert.rejects(redis.sendCommand(['RLOCK.RACQUIRE', 'orders:42', 'worker-8', '0']),
      { message: /^ERR lease must be / });
    assert.deepEqual(await redis.hKeys('orders:42'), ['mode', 'worker-7']);
  });
});
