package rlock.spring;

import org.redisson.api.RedissonClient;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import rlock.redisson.InMemoryLocks;
import rlock.redisson.RedissonLocks;

/** {@link RedissonLocks} alongside Redisson's own client, if there is one. */
@AutoConfiguration(afterName = {
    "org.redisson.spring.starter.RedissonAutoConfigurationV2",
    "org.redisson.spring.starter.RedissonAutoConfigurationV4"})
@EnableConfigurationProperties(RlockProperties.class)
public class RlockAutoConfiguration {

    /** Spring makes one. */
    public RlockAutoConfiguration() {
    }

    @Bean
    @ConditionalOnMissingBean
    @ConditionalOnSingleCandidate(RedissonClient.class)
    @ConditionalOnProperty(name = "rlock.enabled", matchIfMissing = true)
    RedissonLocks redissonLocks(RedissonClient redisson, RlockProperties properties) {
        RedissonLocks.Options options = RedissonLocks.Options.defaults();
        if (properties.fairIsNative()) {
            options = options.fairIsNative();
        }
        return properties.required() ? RedissonLocks.of(redisson, options) : RedissonLocks.ifAvailable(redisson, options);
    }

    /** For code that has locks without annotations: it starts and runs without a server. */
    @Bean
    @ConditionalOnMissingBean(RedissonLocks.class)
    @ConditionalOnProperty(name = "rlock.enabled", havingValue = "false")
    InMemoryLocks inMemoryLocks() {
        return new InMemoryLocks();
    }
}
