package rlock.redisson;

import java.time.Duration;

/** Permits of {@link InMemoryLocks}. */
final class InMemoryPermits implements Permits {
    private final InMemoryHolds holds;
    private final String name;
    private final int limit;

    InMemoryPermits(InMemoryHolds holds, String name, int limit) {
        if (limit < 1) {
            throw new IllegalArgumentException("a limit of " + limit + " permits");
        }
        this.holds = holds;
        this.name = name;
        this.limit = limit;
    }

    private boolean take(long wait, long lease, boolean isInterruptible) throws InterruptedException {
        return holds.acquire(Side.PERMIT, limit, NativeLock.me(), wait, lease, isInterruptible) != null;
    }

    private boolean takeUninterruptibly(long wait) {
        try {
            return take(wait, InMemoryHolds.FOR_EVER, false);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
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
        takeUninterruptibly(InMemoryHolds.FOR_EVER);
    }

    @Override
    public boolean tryAcquire() {
        return takeUninterruptibly(0);
    }

    @Override
    public boolean tryAcquire(Duration wait) throws InterruptedException {
        NativeLock.failIfInterrupted();
        return take(Clock.ns(NativeLock.waitMs(wait)), InMemoryHolds.FOR_EVER, true);
    }

    @Override
    public boolean tryAcquire(Duration wait, Duration lease) throws InterruptedException {
        NativeLock.failIfInterrupted();
        return take(Clock.ns(NativeLock.waitMs(wait)), Clock.ns(NativeLock.leaseMs(lease)), true);
    }

    @Override
    public void release() {
        if (!holds.release(Side.PERMIT, NativeLock.me())) {
            throw new IllegalMonitorStateException("this thread has no permit of " + name);
        }
    }

    @Override
    public Duration remaining(long threadId) {
        return Duration.ofMillis(holds.restMs(Side.PERMIT, threadId));
    }

    @Override
    public String toString() {
        return "Permits{" + name + ", " + limit + "}";
    }
}
