// The public API: `Locks`, which makes locks, and `Lock`, which says how to acquire one. CommonJS, so that both kinds of
// modules get the same classes; its exports are found by name.
'use strict';

const { EventEmitter } = require('node:events');
const { Calls } = require('./calls.js');
const {
  LockError, Busy, Lost, InDoubt, Unavailable, TooFewReplicas, QueueFull, WrongKind, Deadlock, NoModule, OldModule, NoRight,
  Refused, Configuration, Closed,
} = require('./errors.js');
const { Held } = require('./held.js');
const { lead } = require('./lead.js');
const { once } = require('./once.js');
const options = require('./options.js');
const { placeOf } = require('./place.js');

class Lock {
  #calls;
  #wanted;
  #terms;

  constructor(calls, kind, names, given, limit) {
    this.#calls = calls;
    this.#wanted = options.wanted(kind, names, limit);
    this.#terms = options.terms(kind, given);
  }

  async acquire(given) {
    const terms = given ? options.terms(this.#wanted.kind, given, this.#terms) : this.#terms;
    return this.#calls.acquire(this.#wanted, terms, granted => new Held(this.#calls, this.#wanted, granted));
  }

  async tryAcquire(given) {
    return this.acquire({ ...given, wait: 0 }).catch(error => {
      if (error instanceof Busy) return null;
      throw error;
    });
  }

  async using(given, work = given) {
    const own = work === given ? {} : given;
    const held = await this.acquire(own);
    return held.around(work, own?.signal ?? this.#terms.signal);
  }
}

class Locks extends EventEmitter {
  // In the next tick, so that a listener that throws disturbs nothing else.
  #calls = new Calls(loss => process.nextTick(() => this.emit('lost', loss)));

  static connect(server, settings) { return this.#open({ server }, settings); }
  static connectToCluster(cluster, settings) { return this.#open({ cluster }, settings); }

  static connectToSentinels(sentinels, master, { user, password, db, tls, ...settings } = {}) {
    return this.#open({ sentinels, master, user, password, db, tls }, settings);
  }

  // The settings, not the connections, of a client of ioredis or node-redis.
  static async from(client, settings) {
    const { place, certificates } = placeOf(client);
    return this.#open(place, { ...certificates, ...settings });
  }

  static async #open(place, settings) {
    const known = options.settings(settings), locks = new this();
    await locks.#calls.open(place, known);
    return locks;
  }

  // What the names of this client's holders begin with, as operators see them.
  get identity() { return this.#calls.identity; }
  lock(name, given) { return new Lock(this.#calls, 'lock', [name], given); }
  read(name, given) { return new Lock(this.#calls, 'read', [name], given); }
  write(name, given) { return new Lock(this.#calls, 'write', [name], given); }
  permit(name, limit, given) { return new Lock(this.#calls, 'permit', [name], given, options.limit(limit)); }
  all(names, given) { return new Lock(this.#calls, 'all', options.names(names), given); }
  async using(name, ...rest) { return (Array.isArray(name) ? this.all(name) : this.lock(name)).using(...rest); }

  // Rejects when `signal` ends it, or with the work's own error; never resolves.
  async lead(name, given, work = given) {
    const own = work === given ? {} : given, lock = this.lock(name, options.lead(own));
    return lead(lock, own?.signal, work, (...failure) => this.#calls.pause([name], own?.signal, ...failure));
  }

  // A lock that another client has detached.
  async adopt(text) {
    const of = options.detached(text);
    return this.#calls.adopt(of, text, adopted => new Held(this.#calls, of, adopted));
  }

  // With a function in place of options, this is once() of an EventEmitter.
  once(name, given, ...rest) { return typeof given === 'function' ? super.once(name, given) : this.#answer(name, given, ...rest); }

  async #answer(name, given, work) {
    return once(this.#calls, options.wanted('lock', [name]), options.once(given), work);
  }

  async onceJson(name, given, work) {
    const answer = await this.#answer(name, given, async held => JSON.stringify(await work(held)) ?? 'null');
    return JSON.parse(String(answer));
  }

  async forget(name) { return this.#calls.forget(name, Buffer.from(options.name(name))); }

  // Waits fail with `Closed`, and held locks are released. Resolves when that is done, or when the time is over.
  close({ timeout = 3_000 } = {}) { return this.#calls.close(timeout); }
  [Symbol.asyncDispose]() { return this.close(); }
}

module.exports = {
  Locks, LockError, Busy, Lost, InDoubt, Unavailable, TooFewReplicas, QueueFull, WrongKind, Deadlock, NoModule, OldModule,
  NoRight, Refused, Configuration, Closed,
};
