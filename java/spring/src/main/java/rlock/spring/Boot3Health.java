package rlock.spring;

import org.springframework.boot.actuate.health.AbstractHealthIndicator;
import org.springframework.boot.actuate.health.Health;
import rlock.redisson.RedissonLocks;

/** Up if each master has the module, or if the application does without it. */
final class Boot3Health extends AbstractHealthIndicator {
    private final RedissonLocks locks;

    Boot3Health(RedissonLocks locks) {
        super("rlock does not answer");
        this.locks = locks;
    }

    @Override
    protected void doHealthCheck(Health.Builder health) {
        if (locks.isNative()) {
            locks.check();
        }
        health.up().withDetail("native", locks.isNative());
    }
}
