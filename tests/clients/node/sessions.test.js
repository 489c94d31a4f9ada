// Waiting by a session: many waits on one connection, and whatever becomes of that.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { PROTOCOLS, connect, holders, untilWaiting } from './servers.js';
import { Waits } from './waits.js';

const LEASE = 600_000;
const LONG = 60_000; // longer than any test waits

for (const RESP of PROTOCOLS) describe(`RESP${RESP}`, () => {
  let redis; // what looks on
  let client; // the process under test
  let waits;
  before(async () => { redis = await connect({ RESP }); });
  beforeEach(async () => {
    await redis.flushAll();
    client = await connect({ RESP });
    waits = new Waits(client);
  });
  afterEach(async () => {
    await waits.close();
    client.destroy();
  });
  after(() => redis.close());

  const run = command => redis.sendCommand(command.split(' '));
  const figure = async name => Number((await redis.info('rlock')).match(`rlock_${name}:(\\d+)`)[1]);
  const endOfConnections = () => run('CLIENT KILL TYPE normal SKIPME yes');

  // A wait that is the last of so many.
  async function begin(number, signal) {
    const wait = waits.acquire('k', LEASE, LONG, signal);
    await untilWaiting(redis, number);
    return { wait };
  }

  // Nobody waits any longer, and nobody is granted the lock when its holder releases it.
  async function leftTheQueue() {
    await untilWaiting(redis, 0);
    assert.equal(await run('RLOCK.RELEASE k ann'), 1);
    assert.deepEqual(await holders(redis, 'k'), []);
  }

  test('what the page shows', async () => {
    const redis = client;
    // snippet: use
    const waits = new Waits(redis);
    const holder = await waits.acquire('orders:42', 30_000, 10_000);
    // …
    const freed = await redis.sendCommand(['RLOCK.RELEASE', 'orders:42', holder, 'ALL']);
    await waits.close();
    // end
    assert.equal(freed, 1);
  });

  test('many waits have one connection, and are served in order', async () => {
    await run(`RLOCK.ACQUIRE k ann ${LEASE}`);
    const all = [];
    while (all.length < 50) all.push(await begin(all.length + 1));
    assert.equal(await figure('tickets'), 50);
    assert((await redis.info('clients')).includes('connected_clients:3\r\n'));
    let holder = 'ann';
    for (const { wait } of all) {
      assert.equal(await run(`RLOCK.RELEASE k ${holder} ALL`), 1);
      holder = await wait;
      assert.deepEqual(await holders(redis, 'k'), [holder]);
    }
  });

  test('a wait ends with its time', async () => {
    await run(`RLOCK.ACQUIRE k ann ${LEASE}`);
    assert.equal(await waits.acquire('k', LEASE, 50), null);
    await leftTheQueue();
  });

  test('who is aborted leaves the queue', async () => {
    await run(`RLOCK.ACQUIRE k ann ${LEASE}`);
    const controller = new AbortController();
    const { wait } = await begin(1, controller.signal);
    controller.abort();
    await assert.rejects(wait, { name: 'AbortError' });
    await leftTheQueue();
  });

  test('an error is thrown', async () => {
    await run(`RLOCK.RACQUIRE k ann ${LEASE}`);
    await assert.rejects(waits.acquire('k', LEASE, LONG), { message: /^WRONGKIND / });
  });

  test('places outlive the connection', async () => {
    await run(`RLOCK.ACQUIRE k ann ${LEASE}`);
    const first = await begin(1);
    const waited = await figure('waits');
    await endOfConnections();
    const second = await begin(2);
    assert.equal(await figure('waits'), waited + 1, 'the first has kept its place');
    assert.equal(await run('RLOCK.RELEASE k ann'), 1);
    assert.equal(await run(`RLOCK.RELEASE k ${await first.wait} ALL`), 1);
    assert.notEqual(await second.wait, null);
  });

  test('a session that is lost is opened again', async () => {
    for (let lost = 0; lost < 2; lost++) {
      await run(`RLOCK.ACQUIRE k ann ${LEASE}`);
      const { wait } = await begin(1);
      await run(`RLOCK.CANCEL ${waits.session}`);
      await endOfConnections();
      await untilWaiting(redis, 1);
      assert.equal(await run('RLOCK.RELEASE k ann'), 1);
      assert.equal(await run(`RLOCK.RELEASE k ${await wait} ALL`), 1);
    }
  });

  if (RESP === 3) test('a process that stood still asks again', async () => {
    await run(`RLOCK.ACQUIRE k ann ${LEASE}`);
    const wait = waits.acquire('k', LEASE, LONG);
    await untilWaiting(redis, 1);
    // Nothing else goes on in this process meanwhile, so the session ends.
    const info = () => execFileSync('redis-cli', ['-u', process.env.RLOCK_URL, 'INFO', 'rlock']).toString();
    for (const end = Date.now() + LONG; !info().includes('rlock_waiters:0\r\n');) assert(Date.now() < end);
    await untilWaiting(redis, 1);
    assert.equal(await run('RLOCK.RELEASE k ann'), 1);
    assert.notEqual(await wait, null);
  });

  test('who closes ends the session', async () => {
    await run(`RLOCK.ACQUIRE k ann ${LEASE}`);
    const { wait } = await begin(1);
    assert.equal(await run('RLOCK.RELEASE k ann'), 1);
    assert.notEqual(await wait, null);
    await waits.close();
    await assert.rejects(run(`RLOCK.CANCEL ${waits.session}`), { message: /^NOSESSION / });
  });
});
