package rlock.redisson;

import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.function.Function;
import org.redisson.api.ObjectListener;
import org.redisson.api.RFuture;
import org.redisson.api.RLock;

/**
 * Redisson's RLock by the RLOCK commands: a plain lock, or one side of a read-write lock.
 *
 * <p>Methods that only look at a lock are Redisson's own, since what is stored is the same. Sync methods that change it
 * call the async ones and wait, so that there is one way to acquire and one to release.
 */
class NativeLock implements RLock, Watched {
    static final long FOR_EVER = -1;

    final Server server;
    final Locks locks;
    private final RLock redissons;
    private final Side side;
    final String key;

    NativeLock(Server server, Locks locks, RLock redissons, Side side) {
        this.server = server;
        this.locks = locks;
        this.redissons = redissons;
        this.side = side;
        key = NativeLocks.key(redissons);
        failIfEmpty(getName());
    }

    static void failIfEmpty(String name) {
        if (name.isEmpty()) {
            throw new IllegalArgumentException("the name is empty: give the lock one");
        }
    }

    /** Whether each grant draws a token. */
    boolean isFenced() {
        return false;
    }

    boolean isPlain() {
        return side == Side.PLAIN;
    }

    @Override
    public long remainingMs(long thread) {
        return locks.watchdog.remainingMs(id(thread));
    }

    Hold.Id id(long thread) {
        return Hold.Id.of(side, key, server, thread, getName());
    }

    static long waitMs(Duration wait) {
        if (wait.isNegative()) {
            throw new IllegalArgumentException("the wait must be 0 or longer: " + wait);
        }
        return ms(wait);
    }

    /** Below 0 for a wait without an end. */
    static long limitMs(Duration wait) {
        return wait.equals(ChronoUnit.FOREVER.getDuration()) ? FOR_EVER : waitMs(wait);
    }

    static long keepMs(Duration keep) {
        if (keep.compareTo(Duration.ofMillis(1)) < 0) {
            throw new IllegalArgumentException("an answer must be kept for 1 ms or longer: " + keep);
        }
        return ms(keep);
    }

    private static long ms(Duration time) {
        if (time.getSeconds() > Clock.FAR_MS / 1_000) {
            return Clock.FAR_MS;
        }
        return time.isZero() ? 0 : Math.max(1, time.toMillis());
    }

    static long leaseMs(Duration lease) {
        if (lease.isZero() || lease.isNegative()) {
            throw new IllegalArgumentException("the lease must be longer than 0: " + lease);
        }
        return ms(lease);
    }

    static long me() {
        return Thread.currentThread().getId();
    }

    /** @param lease 0 or less: the watchdog's */
    <T> CompletableFuture<T> acquire(
            long waitMs, long lease, TimeUnit unit, long thread, Function<Grant, T> meaning) {
        return acquire(List.of(id(thread)), waitMs, lease, unit, meaning);
    }

    /** @param ids of one holder, this lock's among them */
    <T> CompletableFuture<T> acquire(
            List<Hold.Id> ids, long waitMs, long lease, TimeUnit unit, Function<Grant, T> meaning) {
        // A lease below a millisecond is still a lease.
        Hold.Lease wanted = lease > 0
                ? new Hold.Lease(Math.max(1, unit.toMillis(lease)), false)
                : new Hold.Lease(server.watchdogMs(), true);
        return Attempt.begin(server, locks, ids, new Attempt.Terms(waitMs, wanted, isFenced(), 0), meaning);
    }

    private CompletableFuture<Void> acquireHoweverLong(long lease, TimeUnit unit, long thread) {
        return acquire(FOR_EVER, lease, unit, thread, grant -> null);
    }

    private CompletableFuture<Boolean> acquireWithin(long wait, long lease, TimeUnit unit, long thread) {
        return acquire(wait <= 0 ? 0 : unit.toMillis(wait), lease, unit, thread, grant -> grant != null);
    }

    /** Waits for as long as it takes, however often this thread is interrupted. */
    <T> T get(CompletableFuture<T> future) {
        return get(server, future);
    }

    static <T> T get(Server server, CompletableFuture<T> future) {
        try {
            return server.get(future, false);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Override
    public void lock() {
        get(acquireHoweverLong(-1, null, me()));
    }

    @Override
    public void lock(long leaseTime, TimeUnit unit) {
        get(acquireHoweverLong(leaseTime, unit, me()));
    }

    @Override
    public void lockInterruptibly() throws InterruptedException {
        lockInterruptibly(-1, null);
    }

    @Override
    public void lockInterruptibly(long leaseTime, TimeUnit unit) throws InterruptedException {
        failIfInterrupted();
        server.get(acquireHoweverLong(leaseTime, unit, me()), true);
    }

    static void failIfInterrupted() throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
    }

    @Override
    public boolean tryLock() {
        return get(acquireWithin(0, -1, null, me()));
    }

    @Override
    public boolean tryLock(long waitTime, TimeUnit unit) throws InterruptedException {
        return tryLock(waitTime, -1, unit);
    }

    @Override
    public boolean tryLock(long waitTime, long leaseTime, TimeUnit unit) throws InterruptedException {
        failIfInterrupted();
        return server.get(acquireWithin(waitTime, leaseTime, unit, me()), true);
    }

    @Override
    public RFuture<Void> lockAsync() {
        return lockAsync(me());
    }

    @Override
    public RFuture<Void> lockAsync(long threadId) {
        return lockAsync(-1, null, threadId);
    }

    @Override
    public RFuture<Void> lockAsync(long leaseTime, TimeUnit unit) {
        return lockAsync(leaseTime, unit, me());
    }

    @Override
    public RFuture<Void> lockAsync(long leaseTime, TimeUnit unit, long threadId) {
        return Server.asRedissons(acquireHoweverLong(leaseTime, unit, threadId));
    }

    @Override
    public RFuture<Boolean> tryLockAsync() {
        return tryLockAsync(me());
    }

    @Override
    public RFuture<Boolean> tryLockAsync(long threadId) {
        return tryLockAsync(0, -1, null, threadId);
    }

    @Override
    public RFuture<Boolean> tryLockAsync(long waitTime, TimeUnit unit) {
        return tryLockAsync(waitTime, -1, unit);
    }

    @Override
    public RFuture<Boolean> tryLockAsync(long waitTime, long leaseTime, TimeUnit unit) {
        return tryLockAsync(waitTime, leaseTime, unit, me());
    }

    @Override
    public RFuture<Boolean> tryLockAsync(long waitTime, long leaseTime, TimeUnit unit, long threadId) {
        return Server.asRedissons(acquireWithin(waitTime, leaseTime, unit, threadId));
    }

    /** Succeeds also if the hold is lost. */
    CompletableFuture<Void> releaseHold(long thread) {
        return locks.release(server, id(thread)).exceptionally(error -> {
            if (Server.cause(error) instanceof IllegalMonitorStateException) {
                return null;
            }
            throw new CompletionException(Server.cause(error));
        });
    }

    @Override
    public void unlock() {
        getUnwrapped(server, locks.unlock(server, id(me())));
    }

    @Override
    public void end(long thread) {
        getUnwrapped(server, locks.end(server, id(thread)));
    }

    /** The same with our own exceptions as they are: Redisson wraps every one that is not its own. */
    static <T> T getUnwrapped(Server server, CompletableFuture<T> future) {
        try {
            return getUnwrapped(server, future, false);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    static <T> T getUnwrapped(Server server, CompletableFuture<T> future, boolean interruptibly)
            throws InterruptedException {
        try {
            return server.get(future, interruptibly);
        } catch (RuntimeException e) {
            Throwable cause = e.getCause();
            throw cause instanceof IllegalMonitorStateException || cause instanceof LockLostException
                    || cause instanceof LockBusyException ? (RuntimeException) cause : e;
        }
    }

    @Override
    public RFuture<Void> unlockAsync() {
        return unlockAsync(me());
    }

    @Override
    public RFuture<Void> unlockAsync(long threadId) {
        return Server.asRedissons(locks.unlock(server, id(threadId)));
    }

    @Override
    public boolean forceUnlock() {
        return get(breakOpen());
    }

    @Override
    public RFuture<Boolean> forceUnlockAsync() {
        return Server.asRedissons(breakOpen());
    }

    /** Redisson breaks one side only if the other side has no holder, which it checks in a script of its own. */
    private CompletableFuture<Boolean> breakOpen() {
        Map<Hold.Id, Long> before = locks.holds.of(key);
        CompletableFuture<Boolean> breaking = side == Side.PLAIN
                ? server.repeatably(key, Request.breakOpen(key)).thenApply(Long.valueOf(1)::equals)
                : redissons.forceUnlockAsync().toCompletableFuture();
        return breaking.thenApply(isBroken -> {
            if (isBroken) {
                before.forEach(locks.watchdog::forget);
            }
            return isBroken;
        });
    }

    @Override
    public CompletableFuture<LostLock> loss(long thread) {
        return locks.loss(id(thread));
    }

    @Override
    public LostLock lossByNow(long thread) {
        return locks.watchdog.lossByNow(id(thread));
    }

    @Override
    public CompletableFuture<Boolean> restartLease(long leaseMs, long thread) {
        Hold.Id id = id(thread);
        long until = System.nanoTime() + Clock.ns(leaseMs);
        long calm = locks.holds.with(id, Hold::calm);
        return server.renew(id, leaseMs).thenApply(isHeld -> {
            if (isHeld) {
                locks.holds.change(id, hold -> hold.restart(new Hold.Lease(leaseMs, false), until, calm));
                locks.watchdog.watch(id);
            }
            return isHeld;
        });
    }

    @Override
    public Condition newCondition() {
        throw new UnsupportedOperationException("a lock in a server has no conditions; Redisson's have none either");
    }

    @Override
    public String getName() {
        return redissons.getName();
    }

    @Override
    public boolean isLocked() {
        return redissons.isLocked();
    }

    @Override
    public RFuture<Boolean> isLockedAsync() {
        return redissons.isLockedAsync();
    }

    @Override
    public boolean isHeldByThread(long threadId) {
        return redissons.isHeldByThread(threadId);
    }

    @Override
    public RFuture<Boolean> isHeldByThreadAsync(long threadId) {
        return redissons.isHeldByThreadAsync(threadId);
    }

    @Override
    public boolean isHeldByCurrentThread() {
        return redissons.isHeldByCurrentThread();
    }

    @Override
    public int getHoldCount() {
        return redissons.getHoldCount();
    }

    @Override
    public RFuture<Integer> getHoldCountAsync() {
        return redissons.getHoldCountAsync();
    }

    @Override
    public long remainTimeToLive() {
        return redissons.remainTimeToLive();
    }

    @Override
    public RFuture<Long> remainTimeToLiveAsync() {
        return redissons.remainTimeToLiveAsync();
    }

    @Override
    public int addListener(ObjectListener listener) {
        return redissons.addListener(listener);
    }

    @Override
    public RFuture<Integer> addListenerAsync(ObjectListener listener) {
        return redissons.addListenerAsync(listener);
    }

    @Override
    public void removeListener(int listenerId) {
        redissons.removeListener(listenerId);
    }

    @Override
    public RFuture<Void> removeListenerAsync(int listenerId) {
        return redissons.removeListenerAsync(listenerId);
    }

    @Override
    public String toString() {
        return getClass().getSimpleName() + "{" + getName() + "}";
    }
}
