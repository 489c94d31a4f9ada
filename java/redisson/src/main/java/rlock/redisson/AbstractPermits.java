package rlock.redisson;

import java.time.Duration;

/** What permits in a server and in memory share. */
abstract class AbstractPermits implements Permits {
    static final int LIMIT_MAX = 100_000;

    /** The caller gives no lease: the permit is kept until it is released. */
    static final long KEPT = 0;

    final String name;
    final int limit;

    AbstractPermits(String name, int limit) {
        NativeLock.failIfEmpty(name);
        if (limit < 1 || limit > LIMIT_MAX) {
            throw new IllegalArgumentException("the limit must be 1 to " + LIMIT_MAX + ": " + limit);
        }
        this.name = name;
        this.limit = limit;
    }

    /** @param waitMs below 0: without an end */
    abstract boolean take(long waitMs, long leaseMs, boolean isInterruptible) throws InterruptedException;

    private boolean takeUninterruptibly(long waitMs) {
        try {
            return take(waitMs, KEPT, false);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private boolean takeInterruptibly(Duration wait, long leaseMs) throws InterruptedException {
        NativeLock.failIfInterrupted();
        return take(NativeLock.waitMs(wait), leaseMs, true);
    }

    @Override
    public String getName() {
        return name;
    }

    @Override
    public int getLimit() {
        return limit;
    }

    @Override
    public void acquire() {
        takeUninterruptibly(NativeLock.FOR_EVER);
    }

    @Override
    public boolean tryAcquire() {
        return takeUninterruptibly(0);
    }

    @Override
    public boolean tryAcquire(Duration wait) throws InterruptedException {
        return takeInterruptibly(wait, KEPT);
    }

    @Override
    public boolean tryAcquire(Duration wait, Duration lease) throws InterruptedException {
        return takeInterruptibly(wait, NativeLock.leaseMs(lease));
    }

    @Override
    public String toString() {
        return "Permits{" + name + ", " + limit + "}";
    }
}
