package rlock.redisson;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** Permits by RLOCK.PACQUIRE, held and renewed as locks are. */
final class NativePermits implements Permits {
    private static final int LIMIT_MAX = 100_000;

    private final Server server;
    private final Locks locks;
    private final String name;
    private final String key;
    private final int limit;

    NativePermits(Server server, Locks locks, String name, String key, int limit) {
        NativeLock.failIfEmpty(name);
        if (limit < 1 || limit > LIMIT_MAX) {
            throw new IllegalArgumentException("the limit must be 1 to " + LIMIT_MAX + ": " + limit);
        }
        this.server = server;
        this.locks = locks;
        this.name = name;
        this.key = key;
        this.limit = limit;
    }

    private Hold.Id id(long thread) {
        return Hold.Id.of(Side.PERMIT, key, server, thread, name);
    }

    private CompletableFuture<Boolean> take(long waitMs, Hold.Lease lease) {
        Attempt.Terms terms = new Attempt.Terms(waitMs, lease, false, limit);
        return Attempt.begin(server, locks, List.of(id(NativeLock.me())), terms, grant -> grant != null);
    }

    private Hold.Lease kept() {
        return new Hold.Lease(server.watchdogMs(), true);
    }

    private boolean tryTake(Duration wait, Hold.Lease lease) throws InterruptedException {
        NativeLock.failIfInterrupted();
        return server.get(take(NativeLock.waitMs(wait), lease), true);
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
        NativeLock.get(server, take(NativeLock.FOR_EVER, kept()));
    }

    @Override
    public boolean tryAcquire() {
        return NativeLock.get(server, take(0, kept()));
    }

    @Override
    public boolean tryAcquire(Duration wait) throws InterruptedException {
        return tryTake(wait, kept());
    }

    @Override
    public boolean tryAcquire(Duration wait, Duration lease) throws InterruptedException {
        return tryTake(wait, new Hold.Lease(NativeLock.leaseMs(lease), false));
    }

    @Override
    public void release() {
        NativeLock.getReleased(server, locks.unlock(server, id(NativeLock.me())));
    }

    @Override
    public Duration remaining(long threadId) {
        return Duration.ofMillis(locks.watchdog.remainingMs(id(threadId)));
    }

    @Override
    public String toString() {
        return "Permits{" + name + ", " + limit + "}";
    }
}
