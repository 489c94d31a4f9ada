package rlock.redisson;

import java.time.Duration;
import java.util.List;

/** Permits by RLOCK.PACQUIRE, held and renewed as locks are. */
final class NativePermits extends AbstractPermits {
    private final Server server;
    private final Locks locks;
    private final String key;

    NativePermits(Server server, Locks locks, String name, String key, int limit) {
        super(name, limit);
        this.server = server;
        this.locks = locks;
        this.key = key;
    }

    Hold.Id id(long thread) {
        return Hold.Id.of(Side.PERMIT, key, server, thread, name);
    }

    @Override
    boolean take(long waitMs, long leaseMs, boolean isInterruptible) throws InterruptedException {
        Hold.Lease lease =
                leaseMs == KEPT ? new Hold.Lease(server.watchdogMs(), true) : new Hold.Lease(leaseMs, false);
        Attempt.Terms terms = new Attempt.Terms(waitMs, lease, false, limit);
        List<Hold.Id> ids = List.of(id(NativeLock.me()));
        return server.get(Attempt.begin(server, locks, ids, terms, grant -> grant != null), isInterruptible);
    }

    @Override
    public void release() {
        NativeLock.getUnwrapped(server, locks.unlock(server, id(NativeLock.me())));
    }

    @Override
    public Duration remaining(long threadId) {
        return Duration.ofMillis(locks.watchdog.remainingMs(id(threadId)));
    }
}
