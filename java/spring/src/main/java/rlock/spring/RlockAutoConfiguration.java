package rlock.spring;

import io.micrometer.core.instrument.binder.MeterBinder;
import net.javacrumbs.shedlock.core.LockProvider;
import org.redisson.api.RedissonClient;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.integration.support.locks.LockRegistry;
import rlock.redisson.RedissonLocks;
import rlock.shedlock.RlockLockProvider;

/** {@link RedissonLocks} beside Redisson's own client, if there is one, and what uses them. */
@AutoConfiguration(afterName = {
    "org.redisson.spring.starter.RedissonAutoConfigurationV2",
    "org.redisson.spring.starter.RedissonAutoConfigurationV4"})
@ConditionalOnSingleCandidate(RedissonClient.class)
@EnableConfigurationProperties(RlockProperties.class)
public class RlockAutoConfiguration {

    /** Spring makes one. */
    public RlockAutoConfiguration() {
    }

    @Bean
    @ConditionalOnMissingBean
    RedissonLocks redissonLocks(RedissonClient redisson, RlockProperties properties) {
        RedissonLocks.Options options = RedissonLocks.Options.defaults();
        if (properties.fairIsNative()) {
            options = options.fairIsNative();
        }
        return properties.required() ? RedissonLocks.of(redisson, options) : RedissonLocks.ifAvailable(redisson, options);
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(MeterBinder.class)
    static class Measured {
        @Bean
        @ConditionalOnMissingBean
        RlockMetrics rlockMetrics(RedissonLocks locks, RlockProperties properties) {
            return new RlockMetrics(locks, properties.metrics().names());
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(name = "org.springframework.boot.actuate.autoconfigure.health.ConditionalOnEnabledHealthIndicator")
    static class HealthOfBoot3 {
        @Bean
        @ConditionalOnMissingBean(name = "rlockHealthIndicator")
        @org.springframework.boot.actuate.autoconfigure.health.ConditionalOnEnabledHealthIndicator("rlock")
        Boot3Health rlockHealthIndicator(RedissonLocks locks) {
            return new Boot3Health(locks);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(name = "org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator")
    static class HealthOfBoot4 {
        @Bean
        @ConditionalOnMissingBean(name = "rlockHealthIndicator")
        @org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator("rlock")
        Boot4Health rlockHealthIndicator(RedissonLocks locks) {
            return new Boot4Health(locks);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(LockRegistry.class)
    static class Integration {
        @Bean
        @ConditionalOnMissingBean(LockRegistry.class)
        RlockLockRegistry rlockLockRegistry(RedissonLocks locks, RlockProperties properties) {
            return new RlockLockRegistry(locks, properties.lockRegistry().prefix());
        }
    }

    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass({LockProvider.class, RlockLockProvider.class})
    static class Scheduling {
        @Bean
        @ConditionalOnMissingBean(LockProvider.class)
        RlockLockProvider rlockLockProvider(RedissonLocks locks, RlockProperties properties) {
            return new RlockLockProvider(locks, properties.shedlock().prefix());
        }
    }
}
