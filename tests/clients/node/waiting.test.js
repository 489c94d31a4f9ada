// Waiting in the server: a connection that may be silent for long, and every way out of the queue.

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { PROTOCOLS, connect, holders, untilWaiting } from './servers.js';

// snippet: connect
// A client is one connection, and a command waits for those before it: so each wait needs a client of its own.
async function connectForWaits(redis) {
  const waits = redis.duplicate();
  waits.on('error', () => {}); // the command's own promise rejects too
  return waits.connect();
}
// end

for (const RESP of PROTOCOLS) describe(`RESP${RESP}`, () => {
  let redis;
  let opened = [];
  before(async () => { redis = await connect({ RESP }); });
  beforeEach(async () => {
    await redis.flushAll();
    await untilWaiting(redis, 0);
  });
  afterEach(() => {
    for (const client of opened) if (client.isOpen) client.destroy();
    opened = [];
  });
  after(() => redis.close());

  const run = command => redis.sendCommand(command.split(' '));

  async function waiter(options) {
    const client = options ? await connect({ RESP, ...options }) : await connectForWaits(redis);
    opened.push(client);
    return client;
  }

  // Sends commands that will wait, each on a connection of its own, one behind the other.
  async function wait(...commands) {
    const replies = [];
    for (const command of commands) {
      const client = await waiter();
      replies.push(client.sendCommand(command.split(' ')));
      await untilWaiting(redis, replies.length);
    }
    return replies;
  }

  test('a release hands the lock over, in order', async () => {
    await run('RLOCK.ACQUIRE k ann 600000');
    const [bob, cid] =
      await wait('RLOCK.ACQUIRE k bob 600000 WAIT 20000', 'RLOCK.ACQUIRE k cid 600000 WAIT 20000 FENCED');
    assert.equal(await run('RLOCK.RELEASE k ann'), 1);
    assert.deepEqual(await holders(redis, 'k'), ['bob']);
    assert.equal(await bob, null);
    assert.equal(await run('RLOCK.RELEASE k bob'), 1);
    assert.deepEqual(await holders(redis, 'k'), ['cid']);
    assert.deepEqual(await cid, [null, 1]);
    await untilWaiting(redis, 0);
  });

  test('a writer that leaves lets all readers in', async () => {
    await run('RLOCK.WACQUIRE k ann 600000');
    const readers = await wait('RLOCK.RACQUIRE k bob 600000 WAIT 20000', 'RLOCK.RACQUIRE k cid 600000 WAIT 20000');
    assert.equal(await run('RLOCK.RELEASE k ann'), 1);
    assert.deepEqual(await Promise.all(readers), [null, null]);
  });

  test('a wait ends with its time', async () => {
    const waits = await waiter();
    await run('RLOCK.ACQUIRE orders:42 worker-7 600000');
    // snippet: wait
    const left = await waits.sendCommand(['RLOCK.ACQUIRE', 'orders:42', 'worker-8', '30000', 'WAIT', '50']);
    assert(left > 0); // null: granted; a number: still held after 50 ms
    // end
    await untilWaiting(redis, 0);
    assert.equal(await run('RLOCK.RELEASE orders:42 worker-7'), 1);
    assert.deepEqual(await holders(redis, 'orders:42'), []);
  });

  if (RESP === 3) test('a wait may be longer than node-redis keeps a command back by itself', async () => {
    const waits = await waiter();
    await run('RLOCK.ACQUIRE k ann 6000');
    assert.equal(await waits.sendCommand('RLOCK.ACQUIRE k bob 600000 WAIT 20000'.split(' ')), null);
  });

  test('who closes the connection leaves the queue', async () => {
    const waits = await waiter();
    await run('RLOCK.ACQUIRE k ann 600000');
    const bob = assert.rejects(waits.sendCommand('RLOCK.ACQUIRE k bob 600000 WAIT 0'.split(' ')));
    await untilWaiting(redis, 1);
    waits.destroy();
    await bob;
    await untilWaiting(redis, 0);
    assert.equal(await run('RLOCK.RELEASE k ann'), 1);
    assert.deepEqual(await holders(redis, 'k'), []);
  });

  test('a time-out of the client’s own ends the wait', async () => {
    const hasty = await waiter({ socket: { socketTimeout: 100 } });
    await run('RLOCK.ACQUIRE k ann 600000');
    await assert.rejects(hasty.sendCommand('RLOCK.ACQUIRE k bob 600000 WAIT 0'.split(' ')));
    await untilWaiting(redis, 0);
    assert.equal(await run('RLOCK.RELEASE k ann'), 1);
    assert.deepEqual(await holders(redis, 'k'), []);
  });
});
