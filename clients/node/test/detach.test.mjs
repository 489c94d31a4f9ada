// Detached locks in JavaScript. clients/conformance tests how they are handed on.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Closed, Configuration, Locks, Lost } from 'rlock-client';
import { URL, connect, fresh, isFree, redis } from './servers.mjs';

const locks = await connect(), other = await connect();

test('after a detach the object is over, and the lock is adopted as it was held', async () => {
  const name = fresh(), names = [`${name}{x} a/b`, Buffer.concat([Buffer.from(`${name}{x}`), Buffer.from([0, 255])])];
  const held = await locks.all(names, { fenced: true }).acquire(), text = await held.detach();
  assert.deepEqual([held.lost, held.remaining, held.signal.aborted], [false, 0, false]);
  assert.throws(() => held.check(), Lost);
  await assert.rejects(held.detach(), Lost);
  await held.release();
  await held[Symbol.asyncDispose]();
  const adopted = await other.adopt(text);
  for (const part of ['kind', 'names', 'holder', 'token', 'tokens']) assert.deepEqual(adopted[part], held[part], part);
  assert.equal(adopted.lost, false);
  assert.ok(adopted.remaining > 20_000);
  await adopted.release();
});

test('a release, a second detach and close() during a detach', async () => {
  const own = await Locks.connect(URL), names = [fresh(), fresh()];
  const [one, two] = await Promise.all(names.map(name => own.lock(name).acquire()));
  const detached = one.detach(), released = one.release(), again = assert.rejects(one.detach(), /a detach is under way/);
  await Promise.all([detached, released, again]);
  const closed = two.detach();
  await own.close();
  await closed;
  assert.equal(one.signal.aborted, false);
  for (const name of names) {
    assert.equal(await isFree(name), false);
    await redis.del(name);
  }
  await assert.rejects(own.adopt(await detached), Closed);
});

test('work under a lock that detaches it', async () => {
  const name = fresh(), text = await locks.using(name, held => held.detach());
  assert.equal(await isFree(name), false);
  await (await locks.adopt(text)).release();
  assert.equal(await isFree(name), true);
});

test('mistakes are refused, and the error does not have the text', async () => {
  const held = await locks.lock(fresh()).acquire();
  for (const within of [0, -1, 'x', Infinity]) await assert.rejects(held.detach(within), Configuration);
  await held.release();
  for (const text of [undefined, 42, '', 'rlock1/plain/30000/0/-/secret', 'rlock1/plane/30000/0/-/secret/a', 'rlock1/plain/x/0/-/secret/a']) {
    await assert.rejects(locks.adopt(text), thrown => thrown instanceof Configuration && !/secret/.test(thrown.message), `${text}`);
  }
});
