// The adapter speaks as the suite for all languages expects it. What the client does under faults is that suite's to test.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { test } from 'node:test';
import { URL, atEnd, fresh, isFree, redis, until, untilWaiting } from './servers.mjs';

function begin() {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'adapter.mjs')], { stdio: ['pipe', 'pipe', 'inherit'] });
  atEnd(() => child.kill('SIGKILL'));
  const told = [];
  let rest = '', id = 0;
  child.stdout.on('data', data => {
    const lines = (rest + data).split('\n');
    rest = lines.pop();
    told.push(...lines.map(line => JSON.parse(line)));
  });
  const find = async (what, is) => {
    await until(what, () => told.some(is));
    return told.find(is);
  };
  return {
    child, find,
    ask(request) {
      child.stdin.write(`${JSON.stringify({ id: ++id, ...request })}\n`);
      const asked = id;
      return { id, answer: find(JSON.stringify(request), line => line.id === asked) };
    },
  };
}

test('each request is answered once, and news come unasked', async () => {
  const { child, ask, find } = begin(), [name, other] = [fresh(), fresh()];
  assert.deepEqual((await ask({ do: 'open', url: URL, lease: 2_000 }).answer).ok, { without: [] });
  const { ok } = await ask({ do: 'acquire', held: 'a', lock: name, fenced: true }).answer;
  assert.ok(ok.token === ok.tokens[0] && ok.holder);
  assert.equal((await ask({ do: 'acquire', held: 'b', lock: name, wait: 0 }).answer).error, 'busy');

  const waiting = ask({ do: 'acquire', held: 'b', lock: name });
  await untilWaiting(name, 1);
  assert.deepEqual((await ask({ do: 'cancel', of: waiting.id }).answer).ok, {});
  assert.equal((await waiting.answer).error, 'cancelled');

  await ask({ do: 'block', for: 5_000 }).answer;
  const look = (await ask({ do: 'look', held: 'a' }).answer).ok;
  assert.ok(look.lost === false && look.remaining > 0);
  assert.deepEqual((await ask({ do: 'release', held: 'a' }).answer).ok, {});

  const run = ask({ do: 'run', held: 'c', all: [name, other], wait: 1_000 });
  await find('it has begun', line => line.began === run.id);
  await ask({ do: 'finish', of: run.id }).answer;
  assert.deepEqual((await run.answer).ok, {});

  const stopped = ask({ do: 'run', held: 'd', permit: other, limit: 2, fenced: true });
  assert.ok((await find('it has begun', line => line.began === stopped.id)).token > 0);
  await redis.del(other);
  assert.match((await find('the loss', line => line.lost === 'd')).why, /not held/);
  assert.equal((await stopped.answer).error, 'lost');

  await ask({ do: 'acquire', held: 'e', lock: name }).answer;
  const closed = ask({ do: 'acquire', held: 'f', write: name });
  assert.equal((await closed.answer).error, 'wrong-kind');
  const left = ask({ do: 'acquire', held: 'f', lock: name });
  await untilWaiting(name, 1);
  assert.deepEqual((await ask({ do: 'close' }).answer).ok, {});
  assert.equal((await left.answer).error, 'closed');
  assert.equal(await isFree(name), true);
  child.stdin.end();
  assert.deepEqual(await once(child, 'exit'), [0, null]);
});

test('it ends with its input', async () => {
  const { child, ask } = begin(), name = fresh();
  await ask({ do: 'open', url: URL }).answer;
  await ask({ do: 'acquire', held: 'a', lock: name }).answer;
  ask({ do: 'acquire', held: 'b', lock: name });
  await untilWaiting(name, 1);
  const begun = performance.now();
  child.stdin.end();
  assert.deepEqual(await once(child, 'exit'), [0, null]);
  assert.ok(performance.now() - begun < 5_000);
});
