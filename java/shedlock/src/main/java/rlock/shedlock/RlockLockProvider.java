package rlock.shedlock;

import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import net.javacrumbs.shedlock.core.AbstractSimpleLock;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import org.redisson.api.RFuture;
import org.redisson.api.RLock;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import rlock.redisson.RedissonLocks;

/**
 * ShedLock's locks by the RLOCK commands. {@code lockAtMostFor} is the lease, which the server counts; a lock that is
 * released before {@code lockAtLeastFor} is over gets the rest of it as its lease. Only durations are sent, so clocks
 * of several machines need not agree.
 */
public final class RlockLockProvider implements ExtensibleLockProvider {
    /** The default prefix of a lock's name. */
    public static final String DEFAULT_PREFIX = "shedlock:";

    private static final Logger log = LoggerFactory.getLogger(RlockLockProvider.class);

    /**
     * Each lock has a holder of its own: ShedLock's locks are not re-entrant, and are released and
     * extended by any thread. No thread's id is negative.
     */
    private static final AtomicLong holders = new AtomicLong(Long.MIN_VALUE);

    private final RedissonLocks locks;
    private final String prefix;

    /**
     * With the usual prefix.
     *
     * @param locks by the RLOCK commands
     */
    public RlockLockProvider(RedissonLocks locks) {
        this(locks, DEFAULT_PREFIX);
    }

    /**
     * With a prefix of its own.
     *
     * @param locks by the RLOCK commands; Redisson's own locks cannot restart a lease
     * @param prefix what is set before each lock's name, as in the key
     */
    public RlockLockProvider(RedissonLocks locks, String prefix) {
        // A mock in a test is not native either, and has no client.
        if (!locks.isNative() && locks.getRedisson() != null) {
            throw new IllegalArgumentException("ShedLock's locks need the rlock module, which a server has not loaded");
        }
        this.locks = locks;
        this.prefix = Objects.requireNonNull(prefix, "prefix");
    }

    @Override
    public Optional<SimpleLock> lock(LockConfiguration configuration) {
        RLock lock = locks.getLock(prefix + configuration.getName());
        long holder = holders.getAndIncrement();
        long lease = Math.max(1, leftUntilAtMost(configuration).toMillis());
        boolean isTaken = reply(lock.tryLockAsync(0, lease, TimeUnit.MILLISECONDS, holder));
        return isTaken ? Optional.of(new Taken(lock, holder, configuration)) : Optional.empty();
    }

    private static Duration leftUntilAtMost(LockConfiguration configuration) {
        return Duration.between(ClockProvider.now(), configuration.getLockAtMostUntil());
    }

    private static <T> T reply(RFuture<T> future) {
        try {
            return future.toCompletableFuture().join();
        } catch (CompletionException e) {
            throw e.getCause() instanceof RuntimeException error ? error : e;
        }
    }

    private final class Taken extends AbstractSimpleLock {
        private final RLock lock;
        private final long holder;

        Taken(RLock lock, long holder, LockConfiguration configuration) {
            super(configuration);
            this.lock = lock;
            this.holder = holder;
        }

        @Override
        protected void doUnlock() {
            Duration rest = Duration.between(ClockProvider.now(), lockConfiguration.getLockAtLeastUntil());
            if (!(rest.toMillis() > 0 ? locks.renew(lock, rest, holder) : isUnlocked())) {
                log.warn("{} was not held until its end: its work took longer than lockAtMostFor, or the lock was broken",
                        lock.getName());
            }
        }

        private boolean isUnlocked() {
            try {
                reply(lock.unlockAsync(holder));
                return true;
            } catch (IllegalMonitorStateException e) {
                return false;
            }
        }

        @Override
        protected Optional<SimpleLock> doExtend(LockConfiguration extended) {
            Duration lease = leftUntilAtMost(extended);
            boolean isHeld = lease.toMillis() > 0 && locks.renew(lock, lease, holder);
            return isHeld ? Optional.of(new Taken(lock, holder, extended)) : Optional.empty();
        }
    }
}
