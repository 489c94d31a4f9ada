/** A server of locks for tests: `rlock dev`. */
export interface Server {
  /** Its address, as `Locks.connect` takes it. */
  readonly url: string;
  /** Ends it. */
  close(): Promise<void>;
}

/**
 * Starts a server on a free port. The program is the one that RLOCK_BIN names, or the rlock on PATH; `options` are those of
 * `rlock dev`, such as `['--set', 'max-waiters=10']`.
 */
export function serve(options?: readonly string[]): Promise<Server>;

/** A server for the tests of a file, by the hooks of its test runner: `before` and `after`, or `beforeAll` and `afterAll`. */
export function serveAround(
  before: (hook: () => Promise<void>) => unknown,
  after: (hook: () => Promise<void> | undefined) => unknown,
  options?: readonly string[],
): { readonly url: string };
