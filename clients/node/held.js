// A hold. It lasts, and its lease is renewed, until it is released, even if nothing refers to this object any more: a program
// that forgets the object still does what the lock protects.
'use strict';

const { now } = require('./calls.js');
const { Lost, errorOf } = require('./errors.js');
const options = require('./options.js');

class Held {
  #calls;
  #call;
  #stop = new AbortController();
  #end;
  #released;
  #detaching;

  constructor(calls, { kind, names }, { call, text: holder, tokens }) {
    this.#calls = calls;
    this.#call = call;
    Object.assign(this, { kind, names, holder, tokens, token: tokens[0], started: now() });
  }

  get remaining() { return this.#released || this.#end ? 0 : this.#calls.remaining(this.#call); }

  // Finds a loss even if a busy event loop has not got the report yet.
  look() {
    const loss = !this.#released && !this.#end && this.#calls.loss(this.#call);
    if (!loss) return;
    const [reason, why] = loss;
    this.end(errorOf('lost', `${this.names}: lost: ${why}`, reason));
    this.#calls.lost(this, this.#end);
  }

  get lost() {
    this.look();
    return this.#end instanceof Lost;
  }

  get signal() {
    this.look();
    return this.#stop.signal;
  }

  check() {
    this.look();
    if (this.#end ?? this.#released) throw this.#end ?? new Lost(`${this.names}: released`);
  }

  // From now on the hold cannot be relied on.
  end(error) {
    this.#end ??= error;
    this.#stop.abort(error);
  }

  release(worked = false) {
    // If the detach fails, the hold goes on.
    if (this.#detaching) return this.#detaching.then(() => {}, () => this.release(worked));
    this.look();
    return this.#released ??= this.#calls.release(this, this.#call, worked, this.#end);
  }

  // Ends the hold. The lock stays taken for the client that adopts it.
  async detach(within) {
    const length = options.within(within);
    this.check();
    if (this.#detaching) throw new Lost(`${this.names}: a detach is under way`);
    try {
      this.#detaching = this.#calls.detach(this, this.#call, length);
      const text = await this.#detaching;
      this.#released = Promise.resolve();
      return text;
    } finally {
      this.#detaching = undefined;
    }
  }

  // Stores the answer and ends the hold.
  async answer(value) {
    await this.#detaching?.catch(() => {});
    this.look();
    if (this.#released) throw new Lost(`${this.names}: released`);
    return this.#released = this.#calls.answer(this, this.#call, value, this.#end);
  }

  // Holds the lock around the work, and then releases it. `signal`, the user's own, stops the work as a loss does. `end`
  // releases the lock after work that has succeeded.
  async around(work, signal, end = () => this.release(true)) {
    const stop = () => this.#stop.abort(signal.reason);
    if (signal?.aborted) stop();
    signal?.addEventListener('abort', stop);
    const [done] = await Promise.allSettled([(async () => work(this))()]);
    signal?.removeEventListener('abort', stop);
    try {
      await (done.status === 'fulfilled' ? end(done.value) : this.release(true));
    } catch (error) {
      // A loss counts more than the work's own error, which is mostly due to the loss.
      if (done.status === 'rejected' && done.reason !== error) error.cause ??= done.reason;
      throw error;
    }
    if (done.status === 'rejected') throw done.reason;
    return done.value;
  }

  // The end of the work: if the reply to the release is lost, the work stays valid.
  [Symbol.asyncDispose]() { return this.release(true); }
}

module.exports = { Held };
