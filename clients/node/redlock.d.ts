/// <reference types="node" />
import { EventEmitter } from 'node:events';

export interface Settings {
  readonly driftFactor: number;
  readonly retryCount: number;
  readonly retryDelay: number;
  readonly retryJitter: number;
  readonly automaticExtensionThreshold: number;
}
export interface ExecutionResult {
  attempts: ReadonlyArray<Promise<unknown>>;
}
export type RedlockAbortSignal = AbortSignal & { error?: Error };
type Routine<T> = (signal: RedlockAbortSignal) => Promise<T>;

/** Another holder has the lock. Reported as an `error` event. */
export class ResourceLockedError extends Error {}
/** The `cause` is the client's own error. */
export class ExecutionError extends Error {
  readonly attempts: ReadonlyArray<Promise<unknown>>;
}

export class Lock {
  private constructor();
  readonly redlock: Redlock;
  readonly resources: string[];
  readonly value: string;
  readonly attempts: ReadonlyArray<Promise<unknown>>;
  expiration: number;
  release(): Promise<ExecutionResult>;
  extend(duration: number): Promise<Lock>;
}

export class Redlock extends EventEmitter {
  readonly clients: Set<object>;
  readonly settings: Settings;
  /** One client, or cluster, of ioredis or node-redis. */
  constructor(clients: Iterable<object>, settings?: Partial<Settings>);
  acquire(resources: string[], duration: number, settings?: Partial<Settings>): Promise<Lock>;
  release(lock: Lock): Promise<ExecutionResult>;
  extend(lock: Lock, duration: number): Promise<Lock>;
  using<T>(resources: string[], duration: number, routine: Routine<T>): Promise<T>;
  using<T>(resources: string[], duration: number, settings: Partial<Settings>, routine: Routine<T>): Promise<T>;
  quit(): Promise<void>;
}
export default Redlock;
