package rlock.redisson;

import java.util.Objects;
import java.util.function.Consumer;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.api.options.CommonOptions;

/** Redisson's locks as they are, where the module is missing. They report nothing. */
final class OwnLocks implements RedissonLocks {
    private static final Runnable NOTHING = () -> { };

    private final RedissonClient redisson;

    OwnLocks(RedissonClient redisson) {
        this.redisson = Objects.requireNonNull(redisson, "redisson");
    }

    @Override
    public RLock getLock(String name) {
        return redisson.getLock(name);
    }

    @Override
    public RLock getLock(CommonOptions options) {
        return redisson.getLock(options);
    }

    @Override
    public RFencedLock getFencedLock(String name) {
        return redisson.getFencedLock(name);
    }

    @Override
    public RFencedLock getFencedLock(CommonOptions options) {
        return redisson.getFencedLock(options);
    }

    @Override
    public RReadWriteLock getReadWriteLock(String name) {
        return redisson.getReadWriteLock(name);
    }

    @Override
    public RReadWriteLock getReadWriteLock(CommonOptions options) {
        return redisson.getReadWriteLock(options);
    }

    @Override
    public RLock getFairLock(String name) {
        return redisson.getFairLock(name);
    }

    @Override
    public RLock getFairLock(CommonOptions options) {
        return redisson.getFairLock(options);
    }

    @Override
    public RLock getMultiLock(RLock... locks) {
        return redisson.getMultiLock(locks);
    }

    @Override
    public Runnable onLost(Consumer<LostLock> listener) {
        return NOTHING;
    }

    @Override
    public Runnable observe(LockObserver observer) {
        return NOTHING;
    }

    @Override
    public void check() {
        NativeLocks.check(redisson);
    }

    @Override
    public boolean isNative() {
        return false;
    }

    @Override
    public RedissonClient getRedisson() {
        return redisson;
    }

    /** For what {@link RedissonLocks} has only by the RLOCK commands. */
    static UnsupportedOperationException hasNone() {
        return new UnsupportedOperationException("these are Redisson's own locks, which have nothing of the kind");
    }

    @Override
    public String toString() {
        return "RedissonLocks{Redisson's own of " + redisson + "}";
    }
}
