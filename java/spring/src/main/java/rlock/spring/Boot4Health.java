package rlock.spring;

import org.springframework.boot.health.contributor.AbstractHealthIndicator;
import org.springframework.boot.health.contributor.Health;
import rlock.redisson.RedissonLocks;

/** {@link Boot3Health}, where Spring Boot 4 has it. */
final class Boot4Health extends AbstractHealthIndicator {
    private final RedissonLocks locks;

    Boot4Health(RedissonLocks locks) {
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
