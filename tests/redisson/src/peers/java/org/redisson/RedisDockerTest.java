package org.redisson;

import java.util.function.Consumer;
import org.junit.jupiter.api.BeforeEach;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.testcontainers.containers.GenericContainer;
import rlock.Peer;

/** The base class of Redisson's tests, with the same methods: its servers are not in containers and have the module. */
public class RedisDockerTest {
    protected static final String NOTIFY_KEYSPACE_EVENTS = "--notify-keyspace-events";
    protected static final GenericContainer<?> CONTAINER = createContainer();
    protected static final RedissonClient redisson;
    private static RedissonClient cluster;

    static {
        CONTAINER.start();
        redisson = createInstance();
    }

    protected static GenericContainer<?> createContainer(String... options) {
        return new GenericContainer<>(options);
    }

    protected static Config createConfig() {
        return createConfig(CONTAINER);
    }

    protected static Config createConfig(GenericContainer<?> container) {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + container.getFirstMappedPort());
        return config;
    }

    public static RedissonClient createInstance() {
        return Peer.create(createConfig());
    }

    protected void testWithParams(Consumer<RedissonClient> test, String... options) {
        GenericContainer<?> server = createContainer(options);
        server.start();
        RedissonClient own = Peer.create(createConfig(server));
        try {
            test.accept(own);
        } finally {
            own.shutdown();
            server.stop();
        }
    }

    protected static void testInCluster(Consumer<RedissonClient> test) {
        if (cluster == null) {
            Config config = new Config();
            config.useClusterServers().addNodeAddress(Peer.cluster());
            cluster = Peer.create(config);
        }
        test.accept(cluster);
    }

    protected void restart(GenericContainer<?> redis) {
        redis.restart();
    }

    @BeforeEach
    public void beforeEach() {
        redisson.getKeys().flushall();
        if (cluster != null) {
            cluster.getKeys().flushall();
        }
    }
}
