// Any number of waits over one connection: a session of the server, its events, and who waits for which.

// snippet: session
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ErrorReply } from 'redis';

const TTL_MS = 10_000; // how long the server keeps the waits of a process that it does not hear from

// Waits for locks of one server: make one of them for a process and its client, and end all waits before it.
export class Waits {
  session = randomUUID();
  #redis;
  #polls;
  #process = randomUUID();
  #tickets = 0;
  #inboxes = new Map();
  #seen = 0; // the last event
  #closed = false;

  constructor(redis) {
    this.#redis = redis;
    this.#poll();
  }

  async close() {
    this.#closed = true;
    if (this.#polls?.isOpen) this.#polls.destroy();
    await this.#redis.sendCommand(['RLOCK.CANCEL', this.session]).catch(() => {}); // ends the session
  }

  // Returns the holder, for RENEW and RELEASE … ALL; null if it was not free in time. An AbortSignal ends the wait.
  async acquire(key, leaseMs, waitMs, signal) {
    signal?.throwIfAborted();
    const ticket = String(++this.#tickets);
    const holder = `${this.#process}:${ticket}`;
    const inbox = new Inbox();
    this.#inboxes.set(ticket, inbox);
    const abort = () => inbox.put('error', signal.reason);
    signal?.addEventListener('abort', abort);
    // Nobody says that the time is up if the server is gone.
    const timer = setTimeout(() => inbox.put('timeout'), waitMs + 1_000);
    let granted = false;
    try {
      granted = await this.#wait(inbox, ticket, key, holder, leaseMs, waitMs, signal);
      return granted ? holder : null;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
      this.#inboxes.delete(ticket);
      if (!granted) {
        const cancel = ['RLOCK.CANCEL', this.session, ticket], release = ['RLOCK.RELEASE', key, holder, 'ALL'];
        await Promise.allSettled([cancel, release].map(command => this.#redis.sendCommand(command)));
      }
    }
  }

  async #wait(inbox, ticket, key, holder, leaseMs, waitMs, signal) {
    const end = Date.now() + waitMs;
    for (let left = waitMs; left > 0; left = end - Date.now()) {
      signal?.throwIfAborted();
      // Sent again with the same ticket, it keeps its place in the queue.
      const wait = ['WAIT', String(left), 'SESSION', this.session, ticket];
      const reply = await this.#ask(['RLOCK.ACQUIRE', key, holder, String(leaseMs), ...wait]);
      if (reply === null) return true;
      if (reply === 'ask again') continue;
      const [outcome, value] = await inbox.take();
      if (outcome === 'timeout') return false;
      if (outcome === 'error') throw value instanceof Error ? value : new ErrorReply(value);
      // A grant may be old when it is read: the lock is ours only if it can be renewed.
      if (outcome === 'granted' && await this.#ask(['RLOCK.RENEW', key, holder, String(leaseMs)]) === 1) return true;
    }
    return false;
  }

  // Every command here may be sent again, after the connection broke or the session was lost.
  async #ask(command) {
    try {
      return await this.#redis.sendCommand(command);
    } catch (error) {
      if (error instanceof ErrorReply && !error.message.startsWith('NOSESSION')) throw error;
      await sleep(100);
      return 'ask again';
    }
  }

  async #poll() {
    const socket = { ...this.#redis.options.socket, socketTimeout: TTL_MS / 2, reconnectStrategy: false };
    while (!this.#closed) {
      this.#polls = this.#redis.duplicate({ socket });
      this.#polls.on('error', () => {}); // each command's own promise tells of it too
      try {
        await this.#polls.connect();
        await this.#listen();
      } catch (error) {
        if (this.#polls.isOpen) this.#polls.destroy();
        if (this.#closed) return;
        if (error.message.startsWith('NOSESSION')) this.#seen = 0;
        console.warn('rlock: no events, trying again:', error.message);
        await sleep(100);
      }
    }
  }

  async #listen() {
    let now = Date.now();
    await this.#read(this.#call()); // opens the session, or takes it up again
    for (const inbox of this.#inboxes.values()) inbox.put('ask again');
    // Two calls are under way, so that one waits in the server while the reply to the other is read.
    let next = this.#call('WAIT', '0');
    for (let before = now; now - before < TTL_MS; [now, before] = [Date.now(), now]) {
      const reply = next;
      next = this.#call('WAIT', '0');
      await this.#read(reply);
    }
    throw new Error('this process stood still, and the session may have ended');
  }

  #call(...wait) {
    const call = ['RLOCK.EVENTS', this.session, 'ACK', String(this.#seen), 'TTL', String(TTL_MS), ...wait];
    const reply = this.#polls.sendCommand(call);
    reply.catch(() => {}); // whoever reads it hears of the error
    return reply;
  }

  async #read(reply) {
    for (const [seq, ticket, outcome, value] of await reply) {
      const inbox = this.#inboxes.get(ticket);
      if (inbox) inbox.put(outcome, value);
      // Nobody waits any more, and it is not acknowledged yet: the server takes the lock back.
      else if (outcome === 'granted') await this.#redis.sendCommand(['RLOCK.CANCEL', this.session, ticket]);
      this.#seen = seq;
    }
  }
}

// What a wait is told, in order.
class Inbox {
  #news = [];
  #wake = () => {};

  put(...news) {
    this.#news.push(news);
    this.#wake();
  }

  async take() {
    while (this.#news.length === 0) await new Promise(resolve => { this.#wake = resolve; });
    return this.#news.shift();
  }
}
// end
