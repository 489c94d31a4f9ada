// The API of the package `redlock`, version 5, for programs written for it, by locks that wait in the server's queue. One
// server, cluster or set of sentinels has the locks: a majority of several servers is another thing, and is refused.
'use strict';

const { EventEmitter } = require('node:events');
const { later, now } = require('./calls.js');
const { Locks, LockError, Busy, Configuration } = require('./index.js');

const SETTINGS = {
  driftFactor: 0.01, retryCount: 10, retryDelay: 200, retryJitter: 100, automaticExtensionThreshold: 500,
};

class ResourceLockedError extends Error {
  name = 'ResourceLockedError';
}

class ExecutionError extends Error {
  name = 'ExecutionError';
  attempts = [];
}

// Sends a command about one key by the program's own client, of ioredis or of node-redis.
const send = (client, key, ...words) => {
  const command = [words[0], key, ...words.slice(1)].map(String);
  if (client.call) return client.call(...command);
  return client.slots ? client.sendCommand(key, false, command) : client.sendCommand(command);
};

class Lock {
  #stop;

  constructor(redlock, resources, held, duration) {
    Object.assign(this, { redlock, resources, held, value: held.holder, attempts: [], expiration: Date.now() + duration });
    // The lease is renewed until then, as for any lock of the client.
    this.#stop = later(now() + duration, () => this.release().catch(() => {}));
  }

  release() { return this.redlock.release(this); }
  extend(duration) { return this.redlock.extend(this, duration); }

  invalidate() {
    this.expiration = 0;
    this.#stop();
  }
}

class Redlock extends EventEmitter {
  #locks;

  constructor(clients, settings) {
    super();
    // Without a listener, an error event would end the program.
    this.on('error', () => {});
    this.clients = new Set(clients);
    this.settings = { ...SETTINGS, ...settings };
    if (this.clients.size !== 1) throw new Configuration('redlock: the locks are on one server, so it takes one client');
  }

  async #held(resources, duration, settings) {
    if (!Number.isInteger(duration)) throw new Error('Duration must be an integer value in milliseconds.');
    const { retryCount, retryDelay, retryJitter } = { ...this.settings, ...settings };
    const wait = retryCount < 0 ? Infinity : retryCount * (retryDelay + retryJitter);
    return this.#translated('The operation was unable to achieve a quorum during its retry window.', async () => {
      this.#locks ??= Locks.from(...this.clients).catch(error => {
        this.#locks = undefined;
        throw error;
      });
      return (await this.#locks).all(resources).acquire({ lease: duration, wait });
    });
  }

  async #translated(message, work) {
    try {
      return await work();
    } catch (cause) {
      if (!(cause instanceof LockError)) throw cause;
      this.emit('error', cause instanceof Busy ? new ResourceLockedError(cause.message, { cause }) : cause);
      throw new ExecutionError(message, { cause });
    }
  }

  async acquire(resources, duration, settings) {
    return new Lock(this, resources, await this.#held(resources, duration, settings), duration);
  }

  async release(lock) {
    lock.invalidate();
    await this.#translated('The lock was not held any more.', () => lock.held.release());
    return { attempts: [] };
  }

  async extend(lock, duration) {
    if (lock.expiration < Date.now() || lock.held.lost) throw new ExecutionError('Cannot extend an already-expired lock.');
    // If this process dies, the server keeps the lock for as long as the caller has asked for.
    const [client] = this.clients;
    const renewed = await Promise.all(lock.resources.map(it => send(client, it, 'RLOCK.RENEW', lock.value, duration)));
    if (renewed.some(reply => Number(reply) !== 1)) throw new ExecutionError('Cannot extend an already-expired lock.');
    lock.invalidate();
    return new Lock(this, lock.resources, lock.held, duration);
  }

  async using(resources, duration, settings, routine = settings) {
    const held = await this.#held(resources, duration, settings === routine ? {} : settings);
    const { signal } = held;
    Object.defineProperty(signal, 'error', { get: () => signal.reason });
    return held.around(() => routine(signal));
  }

  async quit() {
    await (await this.#locks)?.close();
    await Promise.all(Array.from(this.clients, client => client.quit()));
  }
}

module.exports = { __esModule: true, default: Redlock, Redlock, Lock, ResourceLockedError, ExecutionError };
