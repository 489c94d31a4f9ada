// What drives this client in the suite for the clients of all languages, clients/conformance: one JSON object a line.

import { createInterface } from 'node:readline';
import { LockError, Locks, Lost } from 'rlock-client';

let locks;
const held = new Map(), controllers = new Map(), works = new Map();

class Failed extends Error {}

const say = line => process.stdout.write(`${JSON.stringify(line)}\n`);

function lockOf(request) {
  const { wait, lease, fixed, fenced, owner, max_waiters: maxWaiters, replicas: count, within } = request;
  const replicas = count === undefined ? undefined : { count, within };
  const options = { wait, lease: fixed ?? lease, fixed: fixed !== undefined, fenced, owner, maxWaiters, replicas };
  if (request.read !== undefined) return locks.read(request.read, options);
  if (request.write !== undefined) return locks.write(request.write, options);
  if (request.permit !== undefined) return locks.permit(request.permit, request.limit, options);
  if (request.all !== undefined) return locks.all(request.all, options);
  return locks.lock(request.lock, options);
}

function keep(name, lock) {
  held.set(name, lock);
  lock.signal.addEventListener('abort', () => {
    if (lock.signal.reason instanceof Lost) {
      const { message: why, reason } = lock.signal.reason;
      say({ lost: name, why, reason });
    }
  });
}

function kept(name, lock) {
  keep(name, lock);
  const { kind, holder, token, tokens } = lock;
  return kind === 'all' ? { holder, tokens } : { holder, token };
}

// Does work that `cancel` can give up.
async function cancellable(id, work) {
  const controller = new AbortController();
  controllers.set(id, controller);
  try {
    return await work(controller.signal);
  } finally {
    controllers.delete(id);
  }
}

// Runs until `finish` or `signal` ends it.
async function worked(id, signal, news) {
  signal.throwIfAborted();
  try {
    return await new Promise((resolve, reject) => {
      works.set(id, { resolve, reject });
      signal.addEventListener('abort', () => reject(signal.reason));
      say({ began: id, ...news });
    });
  } finally {
    works.delete(id);
  }
}

const does = {
  async open({ url, cluster, sentinels, master, lease, patience, answer: answerTimeout, name }) {
    const settings = { lease, patience, answerTimeout, name };
    if (cluster) locks = await Locks.connectToCluster(cluster, settings);
    else if (sentinels) locks = await Locks.connectToSentinels(sentinels, master, settings);
    else locks = await Locks.connect(url, settings);
    return { without: [] };
  },

  async acquire(request) {
    const lock = await cancellable(request.id, signal => lockOf(request).acquire({ signal }));
    return kept(request.held, lock);
  },

  async detach({ held: name, within }) {
    return { text: await held.get(name).detach(within) };
  },

  async adopt({ held: name, text }) {
    return kept(name, await locks.adopt(text));
  },

  async cancel({ of }) {
    controllers.get(of)?.abort();
    return {};
  },

  async release({ held: name }) {
    await held.get(name).release();
    return {};
  },

  async look({ held: name }) {
    const { lost, remaining } = held.get(name);
    return { lost, remaining };
  },

  async run(request) {
    await lockOf(request).using(async lock => {
      keep(request.held, lock);
      await worked(request.id, lock.signal, { token: lock.token });
    });
    return {};
  },

  async lead({ id, lock }) {
    await cancellable(id, signal => locks.lead(lock, { signal }, async held => {
      await worked(id, held.signal).finally(() => say({ ended: id }));
    }));
  },

  async once({ id, once: key, keep, wait, lease, max_waiters: maxWaiters }) {
    const value = await cancellable(id, signal => locks.once(key, { keep, wait, lease, maxWaiters, signal }, held => worked(id, held.signal)));
    return { value: String(value) };
  },

  async forget({ once: key }) {
    await locks.forget(key);
    return {};
  },

  async finish({ of, value }) {
    works.get(of)?.resolve(value);
    return {};
  },

  async fail({ of }) {
    works.get(of)?.reject(new Failed());
    return {};
  },

  async block({ for: time }) {
    for (const end = performance.now() + time; performance.now() < end;);
    return {};
  },

  async close() {
    await locks.close();
    return {};
  },
};

function wordOf(error) {
  if (error instanceof Failed) return 'failed';
  if (error instanceof LockError) return error.code.slice('RLOCK_'.length).toLowerCase().replaceAll('_', '-');
  return error.name === 'AbortError' ? 'cancelled' : 'configuration';
}

async function answer(line) {
  const request = JSON.parse(line), { id } = request;
  try {
    say({ id, ok: await does[request.do](request) });
  } catch (error) {
    say({ id, error: wordOf(error), text: String(error.message), reason: error.reason });
  }
}

const lines = createInterface({ input: process.stdin });
lines.on('line', answer);
lines.on('close', async () => {
  await locks?.close({ timeout: 1_000 });
  process.exit(0);
});
