// The calls to the native part that have no result yet, and the holds.
//
// A call that waits keeps the process alive, like any other promise that is awaited. An open client and held locks do not:
// a program that has nothing left to do ends.
'use strict';

const { channel } = require('node:diagnostics_channel');
const { debuglog } = require('node:util');
const { Client } = require('./native.js');
const { Closed, errorOf } = require('./errors.js');

const debug = debuglog('rlock');
const PERMANENT = ['wrong-kind', 'no-module', 'old-module', 'no-right', 'refused', 'configuration'];
const LONGEST_TIMER = 2 ** 31 - 1;

// When the process ends, their holds are released, as far as the requests can be sent in a moment.
const open = new Set();
process.on('exit', () => open.forEach(calls => calls.leave()));

// In ms, as Date.now(), but finer and never set back.
const now = () => performance.timeOrigin + performance.now();

// Calls `work` at that time, and returns a function that prevents it. Node's own timers fire at once beyond 2^31 - 1 ms.
function later(at, work) {
  let timer;
  const wait = () => {
    const left = at - now();
    timer = setTimeout(() => (left > LONGEST_TIMER ? wait() : work()), Math.min(left, LONGEST_TIMER)).unref();
  };
  wait();
  return () => clearTimeout(timer);
}

// Does the work, and publishes on a channel how long it took and how it ended.
async function published(name, { kind, names }, work, started = now()) {
  let error;
  try {
    return await work();
  } catch (caught) {
    throw error = caught;
  } finally {
    const listeners = channel(name);
    if (listeners.hasSubscribers) listeners.publish({ kind, names, started, duration: now() - started, error });
  }
}

class Calls {
  #native;
  #waits = new Map();
  #others = new Map();
  #held = new Map();
  #detaching = new Set();
  #last = 0;
  #alive = setInterval(() => {}, LONGEST_TIMER).unref();
  #closing;
  #idle;
  #logged;
  #onLoss;

  constructor(onLoss) { this.#onLoss = onLoss; }

  // `begin` gets the call's number. `use` gets the outcome, and returns what the promise resolves with.
  #ask(calls, begin, use = outcome => outcome) {
    return new Promise(resolve => {
      const call = this.#last++;
      begin(call);
      calls.set(call, outcome => resolve(use(outcome)));
      this.#alive.ref();
    });
  }

  // The first report on a call is its outcome. If the call holds a lock, a later report says that the lock is lost.
  #report(call, word, text, tokens, reason, answer) {
    const calls = this.#waits.has(call) ? this.#waits : this.#others, settle = calls.get(call);
    if (!settle) return this.#held.get(call)?.look();
    calls.delete(call);
    settle({ call, word, text, tokens, reason, answer });
    if (this.#waits.size + this.#others.size > 0) return;
    this.#alive.unref();
    this.#idle?.();
  }

  // The error is made here, not where it is reported, so that its stack has the caller's lines.
  #check(outcome) {
    const { word, text, reason } = outcome;
    if (!word) return outcome;
    if (PERMANENT.includes(word) && this.#logged !== word) debug('%s', text);
    this.#logged = word;
    throw errorOf(word, text, reason);
  }

  async open(place, settings) {
    const opened = await this.#ask(this.#others, () => {
      this.#native = new Client(place, settings, (...news) => this.#report(...news));
    });
    if (opened.word) this.#end();
    this.#check(opened);
    open.add(this);
    this.identity = opened.text;
  }

  // Waits for what `begin` starts, unless `signal` or close() ends the wait before.
  async wait(names, signal, begin, use) {
    const closed = `${names}: the client is closed`;
    signal?.throwIfAborted();
    if (this.#closing) throw new Closed(closed);
    let giveUp;
    const outcome = await this.#ask(this.#waits, call => {
      giveUp = () => {
        this.#native.forget(call);
        this.#report(call, 'aborted');
      };
      begin(call);
      signal?.addEventListener('abort', giveUp);
    }, use);
    signal?.removeEventListener('abort', giveUp);
    if (outcome.word === 'aborted') throw signal.reason;
    return this.#check({ ...outcome, text: outcome.text ?? closed });
  }

  acquire(wanted, { signal, ...terms }, make) {
    const { kind, bytes, limit } = wanted;
    return this.#obtain(wanted, signal, call => this.#native.acquire(call, kind, bytes, limit, terms), make);
  }

  // Resolves with the stored answer, or with the `Held` of a caller that leads.
  once(wanted, { signal, ...terms }, make) {
    return this.#obtain(wanted, signal, call => this.#native.once(call, wanted.bytes[0], terms), make);
  }

  adopt(wanted, text, make) {
    return this.#obtain(wanted, undefined, call => this.#native.adopt(call, text), make);
  }

  #obtain(wanted, signal, begin, make) {
    return published('rlock:wait', wanted, async () => {
      let held;
      const { answer } = await this.wait(wanted.names, signal, begin, outcome => {
        // Set at once, since the next report may be its loss.
        if (!outcome.word && !outcome.answer) this.#held.set(outcome.call, held = make(outcome));
        return outcome;
      });
      return answer ?? held;
    });
  }

  // Pauses before the next try, after a temporary failure.
  async pause(names, signal, time, error) {
    let timer;
    debug('%s: the next try is in %d ms', error.message, time);
    try {
      await this.wait(names, signal, call => { timer = setTimeout(() => this.#report(call), time); });
    } finally {
      clearTimeout(timer);
    }
  }

  remaining(call) { return this.#native?.remaining(call) ?? 0; }

  // Why it is lost, if it is: the reason, and its text.
  loss(call) { return this.#native?.loss(call); }

  lost({ kind, names, holder }, error) {
    debug('%s (%s)', error.message, holder);
    channel('rlock:loss').publish({ kind, names, holder, error });
    this.#onLoss({ names, holder, error });
  }

  // `worked`: the work counts if the lock was guaranteed when the work ended, even if the release has no reply.
  // `end`: the error that has ended the hold already, if there is one.
  release(held, of, worked, end) { return this.#over(held, of, end, call => this.#native.release(call, of, worked)); }

  // Releases it and stores the answer, in one step.
  answer(held, of, value, end) { return this.#over(held, of, end, call => this.#native.answer(call, of, value)); }

  #over(held, of, end, begin) {
    this.#held.delete(of);
    return published('rlock:hold', held, async () => {
      if (end) {
        // A server may still have the hold.
        this.#native?.forget(of);
        throw end;
      }
      this.#check(await this.#ask(this.#others, begin));
    }, held.started);
  }

  // Resolves with the text for `adopt` in another client. If the server does not confirm, this fails, and the hold goes on.
  async detach(held, of, within) {
    const asked = this.#ask(this.#others, call => this.#native.detach(call, of, within));
    this.#detaching.add(asked);
    const { text } = this.#check(await asked.finally(() => this.#detaching.delete(asked)));
    this.#held.delete(of);
    await published('rlock:hold', held, () => {}, held.started);
    return text;
  }

  // Removes the answer of that key.
  async forget(name, bytes) {
    if (this.#closing) throw new Closed(`${name}: the client is closed`);
    this.#check(await this.#ask(this.#others, call => this.#native.removeAnswer(call, bytes)));
  }

  close(limit) { return this.#closing ??= this.#close(limit); }

  async #close(limit) {
    for (const call of this.#waits.keys()) this.#report(call, 'closed');
    for (const held of this.#held.values()) held.end(new Closed(`${held.names}: the client is closed`));
    // Releases and detaches that are under way are waited for, too.
    const late = later(now() + limit, () => {
      for (const call of this.#others.keys()) this.#report(call, 'unavailable', 'closed before a server has answered');
    });
    if (this.#detaching.size > 0) await Promise.all(this.#detaching);
    const idle = new Promise(resolve => { this.#idle = resolve; });
    await Promise.all([this.#ask(this.#others, call => this.#native.close(call, limit)), idle]);
    late();
    this.#end();
  }

  leave() {
    for (const call of this.#held.keys()) this.#native.forget(call);
  }

  #end() {
    open.delete(this);
    clearInterval(this.#alive);
    this.#native = undefined;
  }
}

module.exports = { Calls, later, now };
