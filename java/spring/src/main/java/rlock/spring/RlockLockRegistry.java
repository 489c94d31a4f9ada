package rlock.spring;

import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import org.redisson.api.RLock;
import org.springframework.integration.support.locks.ExpirableLockRegistry;
import org.springframework.integration.support.locks.RenewableLockRegistry;
import org.springframework.util.Assert;
import rlock.redisson.RedissonLocks;

/**
 * Spring Integration's locks by the RLOCK commands, renewed while they are held. {@code unlock} throws as other registries
 * do: IllegalStateException if this thread does not hold the lock, ConcurrentModificationException if it has lost it. A
 * thread that acquires a lost lock again is warned first: {@code tryLock} returns false once, and {@code lock} throws.
 */
public final class RlockLockRegistry implements ExpirableLockRegistry, RenewableLockRegistry {
    /** The default prefix of a lock's name. */
    public static final String DEFAULT_PREFIX = "lock-registry:";

    private static final int DEFAULT_CAPACITY = 100_000;

    private final RedissonLocks locks;
    private final String prefix;

    /** By key; first the locks that {@code obtain} returned the longest time ago. */
    private final Map<String, RegistryLock> obtained = new LinkedHashMap<>(16, 0.75f, true);

    private int capacity = DEFAULT_CAPACITY;

    /**
     * With the usual prefix.
     *
     * @param locks the source of its locks
     */
    public RlockLockRegistry(RedissonLocks locks) {
        this(locks, DEFAULT_PREFIX);
    }

    /**
     * With a prefix of its own.
     *
     * @param locks the source of its locks
     * @param prefix what is set before each lock's name, as in the key
     */
    public RlockLockRegistry(RedissonLocks locks, String prefix) {
        this.locks = locks;
        this.prefix = Objects.requireNonNull(prefix, "prefix");
    }

    /**
     * Limits how many locks this registry remembers. Beyond the limit it forgets a lock that is not held, and {@code obtain}
     * returns a new object for that key.
     *
     * @param cacheCapacity 100,000 if this is not called
     */
    public void setCacheCapacity(int cacheCapacity) {
        synchronized (obtained) {
            capacity = cacheCapacity;
        }
    }

    @Override
    public Lock obtain(Object lockKey) {
        Assert.isInstanceOf(String.class, lockKey, "a lock's key is a String");
        String key = (String) lockKey;
        synchronized (obtained) {
            RegistryLock lock = obtained.computeIfAbsent(key, of -> new RegistryLock(locks.getLock(prefix + of)));
            lock.obtainedAt = System.nanoTime();
            Iterator<RegistryLock> eldest = obtained.values().iterator();
            while (obtained.size() > capacity && eldest.hasNext()) {
                if (eldest.next().isUnused()) {
                    eldest.remove();
                }
            }
            return lock;
        }
    }

    @Override
    public void expireUnusedOlderThan(long age) {
        long now = System.nanoTime();
        synchronized (obtained) {
            obtained.values().removeIf(
                    lock -> lock.isUnused() && TimeUnit.NANOSECONDS.toMillis(now - lock.obtainedAt) > age);
        }
    }

    /**
     * Asserts that this thread holds the lock, which is renewed in any case.
     *
     * @param lockKey its name
     * @throws IllegalStateException if this thread does not hold it
     */
    @Override
    public void renewLock(Object lockKey) {
        RegistryLock lock = (RegistryLock) obtain(lockKey);
        if (!lock.isHeld()) {
            throw lock.notHeld();
        }
    }

    /**
     * Restarts this thread's lease, and renews it no more. Spring Integration calls it from 7.0 on.
     *
     * @param lockKey its name
     * @param lease from now on
     * @throws IllegalStateException if this thread does not hold it
     */
    public void renewLock(Object lockKey, Duration lease) {
        RegistryLock lock = (RegistryLock) obtain(lockKey);
        if (!locks.renew(lock.lock, lease)) {
            throw lock.notHeld();
        }
    }

    private final class RegistryLock implements Lock {
        private final RLock lock;

        /** How often each thread has taken it, as it sees it. */
        private final Map<Thread, Integer> counts = new ConcurrentHashMap<>();

        /** Guarded by the map of all. */
        private long obtainedAt;

        RegistryLock(RLock lock) {
            this.lock = lock;
        }

        boolean isUnused() {
            return counts.isEmpty();
        }

        boolean isHeld() {
            return locks.isNative() ? !locks.remaining(lock).isZero() : lock.isHeldByCurrentThread();
        }

        IllegalStateException notHeld() {
            return new IllegalStateException("this thread does not hold the lock " + lock.getName());
        }

        @Override
        public void lock() {
            failIfLost();
            lock.lock();
            counted(true);
        }

        @Override
        public void lockInterruptibly() throws InterruptedException {
            failIfLost();
            lock.lockInterruptibly();
            counted(true);
        }

        @Override
        public boolean tryLock() {
            return !isLost() && counted(lock.tryLock());
        }

        @Override
        public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
            return !isLost() && counted(lock.tryLock(time, unit));
        }

        @Override
        public void unlock() {
            Thread me = Thread.currentThread();
            if (!counts.containsKey(me)) {
                throw notHeld();
            }
            counts.computeIfPresent(me, (same, count) -> count == 1 ? null : count - 1);
            try {
                lock.unlock();
            } catch (IllegalMonitorStateException e) {
                throw lost(e);
            }
        }

        private boolean counted(boolean isTaken) {
            if (isTaken) {
                counts.merge(Thread.currentThread(), 1, Integer::sum);
            }
            return isTaken;
        }

        /** Whether this thread counted on a lock that is lost. From now on it does not. */
        private boolean isLost() {
            boolean isLost = counts.containsKey(Thread.currentThread()) && !isHeld();
            if (isLost) {
                counts.remove(Thread.currentThread());
            }
            return isLost;
        }

        private void failIfLost() {
            if (isLost()) {
                throw lost(null);
            }
        }

        private ConcurrentModificationException lost(Throwable cause) {
            return new ConcurrentModificationException("this thread has lost the lock " + lock.getName(), cause);
        }

        @Override
        public Condition newCondition() {
            return lock.newCondition();
        }

        @Override
        public String toString() {
            return lock.toString();
        }
    }
}
