package rlock.redisson;

import java.time.Duration;

/** Permits of {@link InMemoryLocks}. */
final class InMemoryPermits extends AbstractPermits {
    final InMemoryHolds holds;

    InMemoryPermits(InMemoryHolds holds, String name, int limit) {
        super(name, limit);
        this.holds = holds;
    }

    @Override
    boolean take(long waitMs, long leaseMs, boolean isInterruptible) throws InterruptedException {
        long lease = leaseMs == KEPT ? InMemoryHolds.FOR_EVER : Clock.ns(leaseMs);
        return holds.acquire(Side.PERMIT, limit, NativeLock.me(), InMemoryHolds.waitNs(waitMs), lease, isInterruptible) != null;
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
}
