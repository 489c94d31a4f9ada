// What a program in TypeScript writes: it has to compile with `strict`, and each mistake below has to be found.

import { Busy, Held, LockError, Locks, Lost, type Options } from 'rlock-client';
import Redlock, { ExecutionError, type RedlockAbortSignal } from 'rlock-client/redlock';
import { instrument } from 'rlock-client/opentelemetry';

export async function everything(url: string): Promise<number> {
  await using locks = await Locks.connect(url, { lease: 30_000, ca: [Buffer.from('')] });
  const options: Options = { wait: 10_000, fenced: true, replicas: { count: 1, within: 100 }, signal: AbortSignal.timeout(5) };
  const length: number = await locks.using('orders:42', options, async ({ signal, token }) => {
    const known: AbortSignal = signal;
    known.throwIfAborted();
    return `${token ?? 0}`.length;
  });
  const nothing: void = await locks.using(['a', Buffer.from('b')], () => {});
  const perhaps: Held | null = await locks.permit('gpu', 4).tryAcquire();
  if (perhaps) {
    const text: string = await perhaps.detach(60_000);
    await (await locks.adopt(text)).release();
  }
  {
    await using held = await locks.read('prices').acquire({ wait: Infinity });
    held.check();
  }
  void locks.lead('reports', { lease: 10_000 }, async held => held.check());
  const rates = await locks.onceJson('rates', { keep: 60_000, wait: 5_000 }, async ({ signal }) => ({ day: `${signal.aborted}` }));
  const page: Buffer = await locks.once('page', { keep: 1_000 }, () => rates.day);
  await locks.forget('page');
  locks.once('lost', ({ names }) => console.log(names)).on('lost', ({ names, error }) => console.log(names, error.code));
  try {
    await locks.all(new Set(['a', 'b'])).using(held => held.tokens);
  } catch (error) {
    if (error instanceof Busy || (error instanceof LockError && error.code === 'RLOCK_QUEUE_FULL')) return 503;
    if (error instanceof Lost) return 500;
    throw error;
  }
  // @ts-expect-error: a number of ms
  locks.lock('a', { wait: '10s' });
  // @ts-expect-error: there is no such option
  locks.lock('a', { timeout: 10 });
  // @ts-expect-error: a leader waits forever
  locks.lead('a', { wait: 10 }, () => {});
  // @ts-expect-error: `keep` is needed
  locks.once('a', { wait: 10 }, () => page);
  // @ts-expect-error: an answer is a string or bytes
  locks.once('a', { keep: 10 }, () => 42);
  // @ts-expect-error: a limit is needed
  locks.permit('gpu');
  // @ts-expect-error: it may be null
  (await locks.lock('a').tryAcquire()).release();
  // @ts-expect-error: it is connected to by a promise
  new Locks();
  return length + Number(nothing);
}

export async function dropIn(client: object): Promise<string> {
  const redlock = new Redlock([client], { retryCount: 3 });
  const lock = await redlock.acquire(['a'], 5_000);
  await (await lock.extend(5_000)).release();
  try {
    return await redlock.using(['a', 'b'], 5_000, { retryCount: 0 }, async (signal: RedlockAbortSignal) => {
      if (signal.aborted) throw signal.error;
      return 'done';
    });
  } catch (error) {
    return error instanceof ExecutionError ? error.message : 'unknown';
  }
}

export const end: () => void = instrument();
