package org.springframework.integration.redis.util;

import java.util.Map;
import java.util.concurrent.Executor;
import java.util.concurrent.locks.Lock;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.integration.support.locks.ExpirableLockRegistry;
import org.springframework.integration.support.locks.RenewableLockRegistry;
import org.springframework.integration.test.util.TestUtils;
import org.springframework.scheduling.TaskScheduler;
import rlock.PeerServer;
import rlock.redisson.RedissonLocks;
import rlock.spring.RlockLockRegistry;

/**
 * rlock's registry under the name, and with the constructors and setters, that RedisLockRegistryTests use. Each one has a
 * client of its own, as it stands for a process. A lease has no effect: rlock renews it while the lock is held.
 */
public final class RedisLockRegistry implements ExpirableLockRegistry, RenewableLockRegistry {
    /** The suite runs each test once for each of them. */
    public enum RedisLockType {
        PUB_SUB_LOCK
    }

    private final RedissonClient redisson = Redisson.create(PeerServer.config());
    private final RlockLockRegistry rlocks;

    /** The suite reads both. */
    private final String registryKey;
    private final Map<?, ?> locks;

    public RedisLockRegistry(RedisConnectionFactory none, String registryKey) {
        this.registryKey = registryKey;
        rlocks = new RlockLockRegistry(RedissonLocks.of(redisson), registryKey + ":");
        locks = TestUtils.getPropertyValue(rlocks, "obtained", Map.class);
    }

    public RedisLockRegistry(RedisConnectionFactory none, String registryKey, long lease) {
        this(none, registryKey);
    }

    public void setRedisLockType(RedisLockType only) {
    }

    public void setRenewalTaskScheduler(TaskScheduler none) {
    }

    public void setExecutor(Executor none) {
    }

    public void setCacheCapacity(int capacity) {
        rlocks.setCacheCapacity(capacity);
    }

    @Override
    public Lock obtain(Object key) {
        return rlocks.obtain(key);
    }

    @Override
    public void renewLock(Object key) {
        rlocks.renewLock(key);
    }

    @Override
    public void expireUnusedOlderThan(long age) {
        rlocks.expireUnusedOlderThan(age);
    }

    public void destroy() {
        redisson.shutdown();
    }
}
