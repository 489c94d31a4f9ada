import static java.util.stream.IntStream.range;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.RedisClusterClient;

/** A cluster: each command goes to the lock's own node, and at once. */
class ClusterTest extends OnEachProtocol {
    @Test
    void commandsFindTheirNode() {
        var config = config().build();
        try (var cluster = RedisClusterClient.builder().nodes(Set.of(address("RLOCK_CLUSTER_URL")))
                .clientConfig(config).build()) {
            onEachNode(cluster, Jedis::flushAll);
            onEachNode(cluster, Jedis::configResetStat);
            List<String> keys = range(0, 30).mapToObj(number -> "orders:" + number).toList();
            for (String key : keys) {
                assertNull(cluster.sendCommand(key, Rlock.ACQUIRE, key, "worker-7", "30000"));
            }
            onEachNode(cluster, node -> assertTrue(node.dbSize() > 0, "locks are on all nodes"));
            for (String key : keys) {
                assertEquals(1L, cluster.sendCommand(key, Rlock.RELEASE, key, "worker-7"));
            }
            onEachNode(cluster, node -> assertTrue(!node.info("errorstats").contains("MOVED"),
                "no node had to send the client to another"));
        }
    }

    @Test
    void aWaitFindsItsNode() {
        var node = address("RLOCK_CLUSTER_URL");
        try (var cluster = RedisClusterClient.create(node)) {
            cluster.del("orders:42");
            assertNull(cluster.sendCommand("orders:42", Rlock.ACQUIRE, "orders:42", "worker-7", "1000"));
        }
        // The first argument is the key, which selects the node; it is not sent. One attempt: Jedis would make five.
        var config = DefaultJedisClientConfig.builder().blockingSocketTimeoutMillis(15_000).build();
        try (var waits = RedisClusterClient.builder().nodes(Set.of(node)).clientConfig(config).maxAttempts(1).build()) {
            assertNull(waits.sendBlockingCommand(
                "orders:42", Rlock.ACQUIRE, "orders:42", "worker-8", "30000", "WAIT", "10000"));
        }
    }

    private static void onEachNode(RedisClusterClient cluster, Consumer<Jedis> task) {
        for (var pool : cluster.getClusterNodes().values()) {
            try (var connection = pool.getResource()) {
                task.accept(new Jedis(connection));
            }
        }
    }
}
