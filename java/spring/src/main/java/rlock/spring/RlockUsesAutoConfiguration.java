package rlock.spring;

import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.List;
import net.javacrumbs.shedlock.core.LockProvider;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.integration.support.locks.LockRegistry;
import rlock.redisson.RedissonLocks;
import rlock.shedlock.RlockLockProvider;

/** What uses {@link RedissonLocks}: metrics, health, Spring Integration and ShedLock, if the application has them. */
@AutoConfiguration(after = RlockAutoConfiguration.class)
@ConditionalOnBean(RedissonLocks.class)
@EnableConfigurationProperties(RlockProperties.class)
public class RlockUsesAutoConfiguration {

    /** Spring makes one. */
    public RlockUsesAutoConfiguration() {
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(MeterBinder.class)
    static class Measured {
        @Bean
        @ConditionalOnMissingBean
        RlockMetrics rlockMetrics(List<RedissonLocks> all, RlockProperties properties) {
            return new RlockMetrics(all, properties.metrics().names());
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(name = "org.springframework.boot.actuate.autoconfigure.health.ConditionalOnEnabledHealthIndicator")
    @ConditionalOnProperty(name = "rlock.enabled", matchIfMissing = true)
    static class HealthOfBoot3 {
        @Bean
        @ConditionalOnMissingBean(name = "rlockHealthIndicator")
        @org.springframework.boot.actuate.autoconfigure.health.ConditionalOnEnabledHealthIndicator("rlock")
        Boot3Health rlockHealthIndicator(List<RedissonLocks> all) {
            return new Boot3Health(new ModuleCheck(all));
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(name = "org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator")
    @ConditionalOnProperty(name = "rlock.enabled", matchIfMissing = true)
    static class HealthOfBoot4 {
        @Bean
        @ConditionalOnMissingBean(name = "rlockHealthIndicator")
        @org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator("rlock")
        Boot4Health rlockHealthIndicator(List<RedissonLocks> all) {
            return new Boot4Health(new ModuleCheck(all));
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(LockRegistry.class)
    @ConditionalOnSingleCandidate(RedissonLocks.class)
    static class Integration {
        @Bean
        @ConditionalOnMissingBean(LockRegistry.class)
        RlockLockRegistry rlockLockRegistry(RedissonLocks locks, RlockProperties properties) {
            return new RlockLockRegistry(locks, properties.lockRegistry().prefix());
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass({LockProvider.class, RlockLockProvider.class})
    @ConditionalOnSingleCandidate(RedissonLocks.class)
    static class Scheduling {
        @Bean
        @ConditionalOnMissingBean(LockProvider.class)
        RlockLockProvider rlockLockProvider(RedissonLocks locks, RlockProperties properties) {
            return new RlockLockProvider(locks, properties.shedlock().prefix());
        }
    }
}
