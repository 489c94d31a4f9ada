package rlock.spring;

import java.time.Duration;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;
import rlock.shedlock.RlockLockProvider;

/**
 * The properties {@code rlock.*}.
 *
 * @param enabled whether methods with @Locked run under their locks. If false, they run without, no server is asked, and the
 *     bean RedissonLocks is an InMemoryLocks
 * @param required whether the application does not start if a master has not loaded the module. If false, Redisson's own
 *     locks are used then
 * @param fairIsNative whether getFairLock returns the plain lock, which is fair. Only if all clients of these locks do so
 * @param defaultWait how long a method with @Locked waits for its lock if it does not say. Without limit if this is not
 *     set
 * @param lockedOrder where @Locked stands among a method's interceptors. It must be lower than that of the transactions
 * @param metrics what is measured
 * @param lockRegistry the lock registry of Spring Integration
 * @param shedlock the lock provider of ShedLock
 */
@ConfigurationProperties("rlock")
public record RlockProperties(
        @DefaultValue("true") boolean enabled,
        @DefaultValue("true") boolean required,
        @DefaultValue("false") boolean fairIsNative,
        Duration defaultWait,
        @DefaultValue("" + LockedAutoConfiguration.ORDER) int lockedOrder,
        @DefaultValue Metrics metrics,
        @DefaultValue LockRegistry lockRegistry,
        @DefaultValue ShedLock shedlock) {

    /**
     * What is measured.
     *
     * @param names whether each measure has a tag with the lock's name. Only if there are few names
     */
    public record Metrics(@DefaultValue("false") boolean names) {
    }

    /**
     * The lock registry of Spring Integration.
     *
     * @param prefix what is set before each name
     */
    public record LockRegistry(@DefaultValue(RlockLockRegistry.DEFAULT_PREFIX) String prefix) {
    }

    /**
     * The lock provider of ShedLock.
     *
     * @param prefix what is set before each name
     */
    public record ShedLock(@DefaultValue(RlockLockProvider.DEFAULT_PREFIX) String prefix) {
    }
}
