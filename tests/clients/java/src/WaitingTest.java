import static java.util.Arrays.asList;
import static java.util.concurrent.CompletableFuture.supplyAsync;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.exceptions.JedisConnectionException;

/** Waiting in the server: a connection that may be silent for long, and every way out of the queue. */
class WaitingTest extends OnEachProtocol {
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private RedisClient waits;

    // snippet: connect
    /** Jedis times out after 2 s; for a blocking command it never does, unless blockingSocketTimeoutMillis is set. */
    static RedisClient connectForWaits(HostAndPort server, RedisProtocol protocol, int longestWaitMs, int howMany) {
        var config = DefaultJedisClientConfig.builder().protocol(protocol)
            .blockingSocketTimeoutMillis(longestWaitMs + 5_000);
        // Each wait keeps a connection for itself; the pool has 8 by default.
        var pool = new ConnectionPoolConfig();
        pool.setMaxTotal(howMany);
        return RedisClient.builder().hostAndPort(server).clientConfig(config.build()).poolConfig(pool).build();
    }
    // end

    @BeforeEach
    void connectWaits() {
        waits = connectForWaits(SERVER, protocol, 60_000, 10);
    }

    @AfterEach
    void closeWaits() {
        // Who still waits, because the test failed, would stand before those of the next.
        redis.sendCommand(Protocol.Command.CLIENT, "KILL", "TYPE", "normal", "SKIPME", "yes");
        untilWaiting(0);
        waits.close();
        threads.shutdownNow();
    }

    /** Sends a command that will wait, as the count-th, and returns once it does. */
    private CompletableFuture<Object> start(int count, Rlock command, String... arguments) {
        var reply = supplyAsync(() -> waits.sendBlockingCommand(command, arguments), threads);
        untilWaiting(count);
        return reply;
    }

    private static Object soon(CompletableFuture<Object> reply) throws Exception {
        return reply.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    }

    @Test
    void aReleaseHandsTheLockOverInOrder() throws Exception {
        assertNull(run(Rlock.ACQUIRE, "k", "ann", "600000"));
        var bob = start(1, Rlock.ACQUIRE, "k", "bob", "600000", "WAIT", "20000");
        var cid = start(2, Rlock.ACQUIRE, "k", "cid", "600000", "WAIT", "20000", "FENCED");
        assertEquals(1L, run(Rlock.RELEASE, "k", "ann"));
        assertEquals(List.of("bob"), holders("k"));
        assertNull(soon(bob));
        assertEquals(1L, run(Rlock.RELEASE, "k", "bob"));
        assertEquals(List.of("cid"), holders("k"));
        assertEquals(asList(null, 1L), soon(cid));
        untilWaiting(0);
    }

    @Test
    void aWriterThatLeavesLetsAllReadersIn() throws Exception {
        assertNull(run(Rlock.WACQUIRE, "k", "ann", "600000"));
        var bob = start(1, Rlock.RACQUIRE, "k", "bob", "600000", "WAIT", "20000");
        var cid = start(2, Rlock.RACQUIRE, "k", "cid", "600000", "WAIT", "20000");
        assertEquals(1L, run(Rlock.RELEASE, "k", "ann"));
        assertNull(soon(bob));
        assertNull(soon(cid));
    }

    @Test
    void aWaitEndsWithItsTime() {
        assertNull(run(Rlock.ACQUIRE, "orders:42", "worker-7", "600000"));
        // snippet: wait
        Object left = waits.sendBlockingCommand(Rlock.ACQUIRE, "orders:42", "worker-8", "30000", "WAIT", "50");
        assertTrue((Long) left > 0); // null: granted; a number: still held after 50 ms
        // end
        assertLeftTheQueue("orders:42", "worker-7");
    }

    @Test
    void aWaitMayBeLongerThanJedisWaitsByItself() {
        assertNull(run(Rlock.ACQUIRE, "k", "ann", "3000"));
        assertNull(waits.sendBlockingCommand(Rlock.ACQUIRE, "k", "bob", "600000", "WAIT", "20000"));
    }

    @Test
    void whoClosesTheConnectionLeavesTheQueue() {
        assertNull(run(Rlock.ACQUIRE, "k", "ann", "600000"));
        var connection = new Connection(SERVER, config().build());
        connection.setTimeoutInfinite();
        var command = new CommandArguments(Rlock.ACQUIRE).key("k").addObjects("bob", "600000", "WAIT", "0");
        var bob = supplyAsync(() -> connection.executeCommand(command), threads);
        untilWaiting(1);
        connection.disconnect();
        var end = assertThrows(ExecutionException.class, () -> soon(bob));
        assertTrue(end.getCause() instanceof JedisConnectionException);
        assertLeftTheQueue("k", "ann");
    }

    @Test
    void aTimeOutOfTheClientsOwnEndsTheWait() {
        assertNull(run(Rlock.ACQUIRE, "k", "ann", "600000"));
        var config = config().blockingSocketTimeoutMillis(100).build();
        try (var hasty = RedisClient.builder().hostAndPort(SERVER).clientConfig(config).build()) {
            assertThrows(JedisConnectionException.class,
                () -> hasty.sendBlockingCommand(Rlock.ACQUIRE, "k", "bob", "600000", "WAIT", "0"));
        }
        assertLeftTheQueue("k", "ann");
    }

    /** Nobody waits any longer, and nobody is granted the lock when its holder releases it. */
    private void assertLeftTheQueue(String key, String holder) {
        untilWaiting(0);
        assertEquals(1L, run(Rlock.RELEASE, key, holder));
        assertEquals(List.of(), holders(key));
    }
}
