package org.springframework.integration.redis;

import org.redisson.Redisson;
import org.redisson.spring.data.connection.RedissonConnectionFactory;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import rlock.PeerServer;

/** A server with the module in place of Spring Integration's container. */
public interface RedisContainerTest {
    static RedisConnectionFactory connectionFactory() {
        return new RedissonConnectionFactory(Redisson.create(PeerServer.config()));
    }
}
