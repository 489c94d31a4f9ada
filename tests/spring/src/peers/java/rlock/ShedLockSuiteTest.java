package rlock;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.test.support.AbstractExtensibleLockProviderIntegrationTest;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeEach;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import rlock.redisson.RedissonLocks;
import rlock.shedlock.RlockLockProvider;

/** ShedLock's suite for its providers, which it publishes. */
class ShedLockSuiteTest extends AbstractExtensibleLockProviderIntegrationTest {
    private static final RedissonClient redisson = Redisson.create(PeerServer.config());

    @BeforeEach
    void clear() {
        redisson.getKeys().flushall();
    }

    @AfterAll
    static void leave() {
        redisson.shutdown();
    }

    @Override
    protected ExtensibleLockProvider getLockProvider() {
        return new RlockLockProvider(RedissonLocks.of(redisson));
    }

    private static boolean isLocked(String name) {
        return redisson.getLock("shedlock:" + name).isLocked();
    }

    @Override
    protected void assertLocked(String name) {
        assertTrue(isLocked(name));
    }

    @Override
    protected void assertUnlocked(String name) {
        assertFalse(isLocked(name));
    }
}
