// A lock that is detached stays on the server, and whoever adopts it holds it as if it was acquired there.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { Closed, Configuration, Locks, LockError, Lost } from 'rlock-client';
import { URL, connect, fresh, isFree, program, redis, until, untilFree } from './servers.mjs';

const locks = await connect(), other = await connect();

const left = name => redis.pTTL(name);
const isLost = thrown => thrown instanceof Lost && thrown.reason === 'not-held';

test('after a detach the lock stays taken, and the object is over', async () => {
  const name = fresh(), held = await locks.lock(name).acquire(), text = await held.detach();
  assert.equal(text, `rlock1/plain/30000/0/-/${held.holder}/${name}`);
  assert.deepEqual([held.lost, held.remaining, held.signal.aborted], [false, 0, false]);
  assert.throws(() => held.check(), Lost);
  await assert.rejects(held.detach(), Lost);
  await held.release();
  await held[Symbol.asyncDispose]();
  assert.ok(await left(name) > 20_000);
  await redis.del(name);
});

test('the lease is restarted to the length that the caller names', async () => {
  const name = fresh(), held = await locks.lock(name, { lease: 5_000 }).acquire();
  assert.match(await held.detach(600_000), /^rlock1\/plain\/5000\//); // with which it is renewed after the adoption
  assert.ok(await left(name) > 500_000);
  await redis.del(name);
});

for (const [what, lock, kind] of [
  ['a lock', name => locks.lock(name, { fenced: true }), 'lock'],
  ['a read side', name => locks.read(name), 'read'],
  ['a write side', name => locks.write(name, { fenced: true }), 'write'],
  ['a permit', name => locks.permit(name, 2, { fenced: true }), 'permit'],
  ['several locks', name => locks.all([`${name}{x} a/b`, Buffer.concat([Buffer.from(`${name}{x}`), Buffer.from([0, 255])])], { fenced: true }), 'all'],
]) {
  test(`${what} is adopted as it was held`, async () => {
    const held = await lock(fresh()).acquire(), adopted = await other.adopt(await held.detach());
    for (const part of ['kind', 'names', 'holder', 'token', 'tokens']) assert.deepEqual(adopted[part], held[part], part);
    assert.equal(adopted.kind, kind);
    assert.equal(adopted.lost, false);
    assert.ok(adopted.remaining > 20_000);
    await adopted.release();
    for (const name of held.names) assert.equal(await isFree(name), true);
  });
}

test('an adopted lock is renewed', async () => {
  const name = fresh(), adopted = await other.adopt(await (await locks.lock(name, { lease: 600 }).acquire()).detach(300));
  assert.ok(await left(name) > 300);
  const before = await left(name);
  await until('it gets lower', async () => await left(name) < before - 100);
  await until('it is renewed', async () => await left(name) > 500);
  await adopted.release();
});

test('another process adopts what a process that has ended has detached', async () => {
  const name = fresh(), prelude = `
    import { Locks } from 'rlock-client';
    const locks = await Locks.connect(process.env.RLOCK_URL);
  `;
  const first = program(`${prelude} console.log(await (await locks.lock('${name}').acquire()).detach()); process.exit();`);
  const { code, lines: [text] } = await first.ends();
  assert.equal(code, 0);
  assert.equal(await isFree(name), false);
  const second = program(`${prelude} await (await locks.adopt(process.argv.at(-1))).release();`, { args: [text] });
  assert.equal((await second.ends()).code, 0);
  assert.equal(await isFree(name), true);
});

test('a lock that is lost before it is adopted', async () => {
  const name = fresh(), text = await (await locks.lock(name).acquire()).detach(30);
  await untilFree(name);
  await assert.rejects(other.adopt(text), isLost);
  const two = [fresh(), fresh()], several = await (await locks.all(two).acquire()).detach();
  await redis.del(two[1]);
  await assert.rejects(other.adopt(several), isLost);
  await redis.del(two[0]);
});

test('a lock that is lost after it was adopted tells', async () => {
  const name = fresh(), short = await connect({ lease: 900 });
  const adopted = await other.adopt(await (await short.lock(name).acquire()).detach()), told = once(other, 'lost');
  await redis.del(name);
  if (!adopted.signal.aborted) await once(adopted.signal, 'abort');
  const [{ names, holder, error }] = await told;
  assert.deepEqual([names, holder, error], [[name], adopted.holder, adopted.signal.reason]);
  await assert.rejects(adopted.release(), isLost);
});

test('adopted twice, a release by one is a loss for the other', async () => {
  const name = fresh(), text = await (await locks.lock(name).acquire()).detach();
  const [one, two] = await Promise.all([other.adopt(text), locks.adopt(text)]);
  await one.release();
  await assert.rejects(two.release(), isLost);
});

test('a lock that was lost is not detached', async () => {
  const name = fresh(), held = await locks.lock(name).acquire();
  await redis.del(name);
  await assert.rejects(held.detach(), isLost);
  assert.equal(held.lost, true);
  await assert.rejects(held.release(), Lost);
});

test('without an answer the hold goes on', async () => {
  const impatient = await connect({ patience: 100, answerTimeout: 100 }), name = fresh();
  const held = await impatient.lock(name).acquire();
  await redis.sendCommand(['CLIENT', 'PAUSE', '20000', 'WRITE']);
  try {
    await assert.rejects(held.detach(), thrown => thrown instanceof LockError && !(isLost(thrown)));
    held.check();
  } finally {
    await redis.sendCommand(['CLIENT', 'UNPAUSE']);
  }
  assert.ok(held.remaining > 0);
  const text = await held.detach();
  await (await other.adopt(text)).release();
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
  const fixed = await locks.lock(fresh(), { lease: 5_000, fixed: true }).acquire();
  await assert.rejects(fixed.detach(), Configuration);
  await fixed.release();
  const held = await locks.lock(fresh()).acquire();
  for (const within of [0, -1, 'x', Infinity]) await assert.rejects(held.detach(within), Configuration);
  await held.release();
  for (const text of [
    undefined, 42, '', 'rlock1', 'rlock1/plain/30000/0/-/secret', 'rlock2/plain/30000/0/-/secret/a', 'rlock1/plane/30000/0/-/secret/a',
    'rlock1/plain/x/0/-/secret/a', 'rlock1/plain/0/0/-/secret/a', 'rlock1/plain/30000/0/x/secret/a', 'rlock1/plain/30000/0/-//a',
    'rlock1/plain/30000/0/-/secret/a/b', 'rlock1/plain/30000/0/-/secret/', 'rlock1/plain/30000/0/-/secret/%2', 'rlock1/permit/30000/0/-/secret/a',
    'rlock1/plain/30000/0/-/secret/a b', 'rlock1/several/30000/0/-/secret/a/a', 'rlock1/plain/30000/0/-/secret/a\n',
  ]) {
    await assert.rejects(locks.adopt(text), thrown => thrown instanceof Configuration && !/secret/.test(thrown.message), `${text}`);
  }
});
