package rlock.spring;

import org.springframework.boot.health.contributor.AbstractHealthIndicator;
import org.springframework.boot.health.contributor.Health;

/** {@link Boot3Health}, where Spring Boot 4 has it. */
final class Boot4Health extends AbstractHealthIndicator {
    private final ModuleCheck check;

    Boot4Health(ModuleCheck check) {
        super("rlock does not answer");
        this.check = check;
    }

    @Override
    protected void doHealthCheck(Health.Builder health) throws Exception {
        check.run();
        health.up().withDetail("native", check.isNative());
    }
}
