// Each way to fail is a class with a code, and says what is wrong.

import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { test } from 'node:test';
import * as rlock from 'rlock-client';
import { URL as SERVER, connect, fresh, redis, untilWaiting } from './servers.mjs';

const { Locks, LockError } = rlock;
const locks = await connect();

const failsWith = (type, message) => thrown => {
  assert.ok(thrown instanceof type && thrown instanceof LockError, `${thrown}`);
  assert.equal(thrown.name, type.name);
  assert.equal(thrown.code, `RLOCK${type.name.replace(/[A-Z]/g, letter => `_${letter}`).toUpperCase()}`);
  assert.match(thrown.message, message);
  return true;
};

test('not free in time', async () => {
  const name = fresh(), held = await locks.lock(name).acquire();
  const busy = locks.lock(name).acquire({ wait: 10 });
  await assert.rejects(busy, failsWith(rlock.Busy, new RegExp(`^${name}: not free in time$`)));
  await held.release();
});

test('an error’s stack has the line that waits for it', async () => {
  const name = fresh(), held = await locks.lock(name).acquire();
  await (async function theLineThatWaits() {
    await assert.rejects(async () => locks.using(name, { wait: 0 }, () => {}), () => true);
    try {
      await locks.using(name, { wait: 0 }, () => {});
    } catch (error) {
      assert.match(error.stack, /^Busy: .*theLineThatWaits/s);
    }
  })();
  await held.release();
});

test('too many wait', async () => {
  const name = fresh(), held = await locks.lock(name).acquire();
  const first = locks.using(name, { maxWaiters: 1 }, () => {});
  await untilWaiting(name, 1);
  await assert.rejects(locks.using(name, { maxWaiters: 1 }, () => {}), failsWith(rlock.QueueFull, /^.*: refused: QUEUEFULL /));
  await held.release();
  await first;
});

test('a lock of another kind', async () => {
  const name = fresh(), held = await locks.lock(name).acquire();
  await assert.rejects(locks.read(name).acquire(), failsWith(rlock.WrongKind, /WRONGKIND/));
  await held.release();
});

test('it would wait for itself', async () => {
  const name = fresh(), held = await locks.read(name, { owner: 'ann' }).acquire();
  await assert.rejects(locks.write(name, { owner: 'ann' }).acquire(), failsWith(rlock.Deadlock, /DEADLOCK/));
  await held.release();
});

test('fewer replicas than asked for', async () => {
  const lock = locks.lock(fresh(), { replicas: { count: 1, within: 20 } });
  await assert.rejects(lock.acquire(), failsWith(rlock.TooFewReplicas, /0 of 1 replicas/));
});

test('what the server refuses', async () => {
  const name = fresh();
  await redis.set(name, 'data');
  await assert.rejects(locks.lock(name).acquire(), failsWith(rlock.Refused, /WRONGTYPE/));
});

test('a user without the right, and a wrong password', async () => {
  const { hostname, port } = new URL(SERVER);
  const user = `user-${process.pid}`;
  await redis.sendCommand(['ACL', 'SETUSER', user, 'on', '>secret', '~*', '&*', '+@all', '-rlock.acquire']);
  try {
    const own = await Locks.connect(`redis://${user}:secret@${hostname}:${port}`);
    await assert.rejects(own.lock(fresh()).acquire(), failsWith(rlock.NoRight, /NOPERM/));
    await own.close();
    await assert.rejects(Locks.connect(`redis://${user}:wrong@${hostname}:${port}`), failsWith(rlock.NoRight, /WRONGPASS/));
  } finally {
    await redis.sendCommand(['ACL', 'DELUSER', user]);
  }
});

// Answers each line that begins a command with the same.
async function answering(answer) {
  const server = createServer(socket => {
    socket.on('error', () => {});
    socket.on('data', data => {
      for (const command of String(data).match(/^\*\d+\r\n\$\d+\r\n[\w.]+/gm) ?? []) {
        socket.write(answer(command.split('\r\n')[2].toUpperCase()));
      }
    });
  });
  await new Promise(listens => server.listen(0, '127.0.0.1', listens));
  return { url: `redis://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

test('a server without the module', async () => {
  const unknown = command => `-ERR unknown command '${command}', with args beginning with: \r\n`;
  const server = await answering(command => (command.startsWith('RLOCK.') ? unknown(command) : '+OK\r\n'));
  const own = await Locks.connect(server.url, { patience: 100 });
  await assert.rejects(own.lock('a').acquire({ wait: 1_000 }), failsWith(rlock.NoModule, /loadmodule/));
  await own.close();
  server.close();
});

test('no server', async () => {
  await assert.rejects(Locks.connect('redis://127.0.0.1:1', { patience: 10 }), failsWith(rlock.Unavailable, /refused/));
});

test('mistakes are told where they are made', async () => {
  const wrong = failsWith(rlock.Configuration, /./);
  for (const address of ['localhost:6379', 'http://127.0.0.1']) await assert.rejects(Locks.connect(address), wrong);
  await assert.rejects(Locks.connect(SERVER, { timeout: 3 }), failsWith(rlock.Configuration, /^timeout: there is no such option$/));
  await assert.rejects(Locks.connect(SERVER, { lease: '30s' }), failsWith(rlock.Configuration, /^lease: cannot be 30s$/));
  await assert.rejects(Locks.connectToCluster([]), wrong);
  await assert.rejects(Locks.connect(), wrong);
  await assert.rejects(Locks.from({}), wrong);
  for (const options of [{ wait: -1 }, { wait: NaN }, { maxWaiters: 1.5 }, { fenced: 1 }, { signal: 1 }, { waits: 1 }, { lease: Infinity }]) {
    assert.throws(() => locks.lock('a', options), wrong);
    await assert.rejects(locks.lock('a').acquire(options), wrong);
  }
  for (const make of [() => locks.lock(42), () => locks.lock(), () => locks.permit('a', 0), () => locks.all(['a', 1])]) {
    assert.throws(make, wrong);
  }
  await assert.rejects(locks.all([]).acquire(), wrong);
  await assert.rejects(locks.using('a'), TypeError);
  assert.throws(() => locks.all('ab'), wrong); // not two locks
  assert.throws(() => locks.lock('a', { fixed: true }), failsWith(rlock.Configuration, /lease/));
});
