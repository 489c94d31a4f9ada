package rlock.spring;

import org.springframework.boot.actuate.health.AbstractHealthIndicator;
import org.springframework.boot.actuate.health.Health;

/** Up if each master has the module, or if the application does without it. */
final class Boot3Health extends AbstractHealthIndicator {
    private final ModuleCheck check;

    Boot3Health(ModuleCheck check) {
        super("rlock does not answer");
        this.check = check;
    }

    @Override
    protected void doHealthCheck(Health.Builder health) throws Exception {
        check.run();
        health.up().withDetail("native", check.isNative());
    }
}
