package rlock.spring;

import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import org.redisson.api.RLock;
import org.springframework.integration.support.locks.RenewableLockRegistry;
import org.springframework.util.Assert;
import rlock.redisson.RedissonLocks;

/**
 * Spring Integration's locks by the RLOCK commands. They are renewed for as long as they are held. A thread that has lost
 * a lock without unlocking it does not get it back by taking it once more: {@code tryLock} is false then, and {@code lock}
 * throws, as nobody knows who had it meanwhile.
 */
public final class RlockLockRegistry implements RenewableLockRegistry {
    /** What is set before a lock's name if the constructor is not told otherwise. */
    public static final String DEFAULT_PREFIX = "lock-registry:";

    private final RedissonLocks locks;
    private final String prefix;

    /** How often this thread has taken each lock, as it sees it. */
    private final ThreadLocal<Map<String, Integer>> counts = ThreadLocal.withInitial(HashMap::new);

    /**
     * With the usual prefix.
     *
     * @param locks of which these are
     */
    public RlockLockRegistry(RedissonLocks locks) {
        this(locks, DEFAULT_PREFIX);
    }

    /**
     * With a prefix of its own.
     *
     * @param locks of which these are
     * @param prefix what is set before each lock's name, as in the key
     */
    public RlockLockRegistry(RedissonLocks locks, String prefix) {
        this.locks = locks;
        this.prefix = Objects.requireNonNull(prefix, "prefix");
    }

    @Override
    public Lock obtain(Object lockKey) {
        return new RegistryLock(lock(lockKey));
    }

    /**
     * Asserts that this thread holds the lock, which is renewed in any case.
     *
     * @param lockKey its name
     * @throws IllegalStateException if this thread does not hold it
     */
    @Override
    public void renewLock(Object lockKey) {
        RLock lock = lock(lockKey);
        if (!isHeld(lock)) {
            throw notHeld(lock);
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
        RLock lock = lock(lockKey);
        if (!locks.renew(lock, lease)) {
            throw notHeld(lock);
        }
    }

    private RLock lock(Object key) {
        Assert.isInstanceOf(String.class, key, "a lock's key is a String");
        return locks.getLock(prefix + key);
    }

    private boolean isHeld(RLock lock) {
        return locks.isNative() ? !locks.remaining(lock).isZero() : lock.isHeldByCurrentThread();
    }

    private static IllegalStateException notHeld(RLock lock) {
        return new IllegalStateException("this thread does not hold the lock " + lock.getName());
    }

    private final class RegistryLock implements Lock {
        private final RLock lock;

        RegistryLock(RLock lock) {
            this.lock = lock;
        }

        @Override
        public void lock() {
            failIfLost();
            lock.lock();
            count(1);
        }

        @Override
        public void lockInterruptibly() throws InterruptedException {
            failIfLost();
            lock.lockInterruptibly();
            count(1);
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
            count(-1);
            lock.unlock();
        }

        private boolean counted(boolean isTaken) {
            if (isTaken) {
                count(1);
            }
            return isTaken;
        }

        private void count(int change) {
            Map<String, Integer> own = counts.get();
            own.merge(lock.getName(), change, (was, by) -> was + by <= 0 ? null : Integer.valueOf(was + by));
            own.remove(lock.getName(), -1);
            if (own.isEmpty()) {
                counts.remove();
            }
        }

        /** Whether this thread counted on it in vain; from now on it does not. */
        private boolean isLost() {
            boolean isLost = counts.get().containsKey(lock.getName()) && !isHeld(lock);
            if (isLost) {
                counts.get().remove(lock.getName());
            }
            return isLost;
        }

        private void failIfLost() {
            if (isLost()) {
                throw new ConcurrentModificationException("this thread has lost the lock " + lock.getName());
            }
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
