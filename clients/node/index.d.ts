/// <reference types="node" />
/// <reference lib="esnext.disposable" />
import { EventEmitter } from 'node:events';

/** All times are in milliseconds. */
export interface Settings {
  /** How long a lock stays taken after its holder died. It is renewed while the lock is held. 30,000 by default. */
  lease?: number;
  /** For how long servers that do not answer are asked again. 10,000 by default. */
  patience?: number;
  /** 2,000 by default. */
  connectTimeout?: number;
  /** 3,000 by default. */
  answerTimeout?: number;
  /** The name of this program as operators see it in the holder. By default, host and process. */
  name?: string;
  /** For TLS, as PEM: which authorities to trust instead of the system's. */
  ca?: Pem;
  /** For TLS, as PEM: the certificate by which servers know this client. */
  cert?: Pem;
  key?: Pem;
}

export type Pem = string | Uint8Array | Array<string | Uint8Array>;

/** User, password, database and TLS are those of the master that the sentinels name. */
export interface SentinelSettings extends Settings {
  user?: string;
  password?: string;
  db?: number;
  tls?: boolean;
}

export interface Options {
  /** How long the call may take. Without it, or Infinity: forever. 0: it tries once. */
  wait?: number;
  /** Another lease than the client's, renewed as well. */
  lease?: number;
  /** The lease is not renewed: the lock is lost when it ends. */
  fixed?: boolean;
  /** Asks for a fencing token. */
  fenced?: boolean;
  /** For a single lock: this owner may acquire it again while holding it. Only one client at a time may use an owner. */
  owner?: Name;
  /** Waits only if fewer than that many wait already. */
  maxWaiters?: number;
  /** `count` replicas have to confirm the lock `within` that time. */
  replicas?: { count: number; within: number };
  /** Gives up the wait. With `using`, it also aborts the work's signal. */
  signal?: AbortSignal;
}

/** A leader waits forever. Its signal ends the lead. */
export type LeadOptions = Omit<Options, 'wait' | 'maxWaiters'>;

export interface OnceOptions {
  /** For how long the answer is kept: at least 1. */
  keep: number;
  /** How long the call may wait for the answer or for the lead. Without it, or Infinity: forever. 0: it asks once. */
  wait?: number;
  /** The lease of a call that leads, renewed while its work runs. */
  lease?: number;
  /** Waits only if fewer than that many wait already. */
  maxWaiters?: number;
  /** Gives up the wait, and aborts the work's signal. Other calls for the same key are not affected. */
  signal?: AbortSignal;
}

export type Name = string | Uint8Array;
export type Work<T> = (held: Held) => T | PromiseLike<T>;
export interface Loss {
  names: Name[];
  holder: string;
  error: Lost;
}

/** A client of one server, one cluster or one master with its sentinels. A program needs one. */
export class Locks extends EventEmitter<{ lost: [Loss] }> {
  private constructor();
  /** `redis://user:password@host:port/db`, `rediss://` for TLS, `redis+unix:///path`. */
  static connect(address: string, settings?: Settings): Promise<Locks>;
  static connectToCluster(addresses: string[], settings?: Settings): Promise<Locks>;
  static connectToSentinels(addresses: string[], master: string, settings?: SentinelSettings): Promise<Locks>;
  /** With the settings, not the connections, of a client or a cluster of ioredis or node-redis. */
  static from(client: object, settings?: Settings): Promise<Locks>;

  /** What the names of this client's holders begin with. */
  readonly identity: string;

  /** One holder at a time. */
  lock(name: Name, options?: Options): Lock;
  /** Many readers … */
  read(name: Name, options?: Options): Lock;
  /** … or one writer. */
  write(name: Name, options?: Options): Lock;
  /** At most `limit` holders at a time. */
  permit(name: Name, limit: number, options?: Options): Lock;
  /** Several locks, all or none. In a cluster they have to be of one slot. */
  all(names: Iterable<Name>, options?: Options): Lock;

  /** The same as `lock(name).using`, or as `all(names).using` if there are several names. */
  using<T>(name: Name | Name[], work: Work<T>): Promise<T>;
  using<T>(name: Name | Name[], options: Options, work: Work<T>): Promise<T>;

  /**
   * Waits for the lock, does the work while holding it, and queues again when a turn is over. A lost lock or an
   * unavailable server does not end it. Rejects with the signal's reason, the work's own error, or a mistake (`WrongKind`).
   */
  lead(name: Name, work: Work<unknown>): Promise<never>;
  lead(name: Name, options: LeadOptions, work: Work<unknown>): Promise<never>;

  /**
   * Takes over a lock that another client has detached, as if it had been acquired here: with the lease, the permit's limit
   * and the tokens of that hold. Fails with `Lost` if the lease has ended.
   */
  adopt(text: string): Promise<Held>;

  /**
   * The answer for this key. If there is none, one caller at a time does the work, and its answer is stored for all. The
   * work's own error reaches its own caller only, and the next caller does the work. Calls of this client for the same key
   * share one request.
   */
  once(key: Name, options: OnceOptions, work: Work<string | Uint8Array>): Promise<Buffer>;
  /** With a listener: the `once` of any `EventEmitter`. */
  once(event: 'lost', listener: (loss: Loss) => void): this;
  /** As `once`, with JSON: each call gets what JSON makes of the value, and null if there is none. */
  onceJson<T>(key: Name, options: OnceOptions, work: Work<T>): Promise<T>;
  /** Removes the answer for this key. */
  forget(key: Name): Promise<void>;

  /** Waits fail with `Closed`, and held locks are released. Takes at most `timeout`, 3,000 ms by default. */
  close(options?: { timeout?: number }): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** A lock, and how to acquire it. Nothing is sent before one of these is called. Each may be called any number of times. */
export class Lock {
  private constructor();
  acquire(options?: Options): Promise<Held>;
  /** null if another holder has the lock or waits for it. */
  tryAcquire(options?: Options): Promise<Held | null>;
  /**
   * Holds the lock around the work, and releases it at the end. A loss aborts the work's signal. When the work has then
   * ended, this fails with `Lost`, and its `cause` is what the work has thrown.
   */
  using<T>(work: Work<T>): Promise<T>;
  using<T>(options: Options, work: Work<T>): Promise<T>;
}

/** A lock that is held until it is released. */
export class Held {
  private constructor();
  readonly kind: 'lock' | 'read' | 'write' | 'permit' | 'all';
  readonly names: Name[];
  /** The name under which the server knows the holder. */
  readonly holder: string;
  /** The fencing token, if the lock is `fenced`. Tokens are in µs, so far below 2^53. */
  readonly token: number | undefined;
  /** The fencing tokens of several locks, in their order. */
  readonly tokens: number[];
  /** Whether the lock is no longer guaranteed. Asks no server. True even if a busy event loop has not reported it yet. */
  readonly lost: boolean;
  /** For how many ms the lock is guaranteed without a renewal. */
  readonly remaining: number;
  /** Aborted at the loss, with the `Lost` error as its reason. */
  readonly signal: AbortSignal;
  /** Throws if the lock is not held any more. */
  check(): void;
  /** Releases the lock, and waits for the server's reply. Fails with `Lost` if it was not held any more. */
  release(): Promise<void>;
  /**
   * Ends this hold, and keeps the lock on the server. `locks.adopt(text)` takes the lock over, also in another process.
   * Unless it is adopted before, the lease ends `within` that time, by default its own length. The text is secret: it is
   * enough to hold and release the lock. If the server does not confirm, this fails, and the hold goes on.
   */
  detach(within?: number): Promise<string>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** `code` is the class's name: `RLOCK_BUSY`, `RLOCK_IN_DOUBT` … */
export class LockError extends Error {
  readonly code: string;
}
/** The lock was not free in time. */
export class Busy extends LockError {}
/** The lease ended, or the server says that the lock is not held. */
export class Lost extends LockError {
  /** Why the lock was lost. Absent if it was released, or if the loss is in doubt. */
  readonly reason?: 'not-held' | 'overwritten' | 'not-renewed' | 'ended';
}
/** The reply to the release is lost: the lock may have been held to the end. */
export class InDoubt extends Lost {}
/** No server answers, or the server cannot do it now. */
export class Unavailable extends LockError {}
/** Fewer replicas than asked for have confirmed the lock. */
export class TooFewReplicas extends LockError {}
/** The server takes no more waiters, or `maxWaiters` wait. */
export class QueueFull extends LockError {}
/** The lock is of another kind. */
export class WrongKind extends LockError {}
/** The caller would wait for itself. */
export class Deadlock extends LockError {}
/** The server has no rlock module. */
export class NoModule extends LockError {}
/** The server's rlock module is too old. */
export class OldModule extends LockError {}
/** A wrong password, none where one is needed, or a missing access right. */
export class NoRight extends LockError {}
/** The server refuses the request for another reason. */
export class Refused extends LockError {}
/** A mistake in how the client was opened or called. */
export class Configuration extends LockError {}
/** The client was closed. */
export class Closed extends LockError {}
