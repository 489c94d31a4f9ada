package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import rlock.redisson.RedissonLocks;
import rlock.redisson.testing.DevServer;
import rlock.redisson.testing.DevServerExtension;

/** The server for tests, as docs/testing.md shows it. */
// snippet: java
@ExtendWith(DevServerExtension.class)
class WrappedDevServerTest {
    @Test
    void oneShipsAtATime(DevServer server) {
        Config config = new Config();
        config.useSingleServer().setAddress(server.url());
        RedissonClient redisson = Redisson.create(config);
        try {
            RLock lock = RedissonLocks.of(redisson).getLock("orders:42");
            lock.lock();                                     // another thread ships it
            assertFalse(CompletableFuture.supplyAsync(() -> lock.tryLock()).join());
            lock.unlock();
            assertTrue(CompletableFuture.supplyAsync(() -> lock.tryLock()).join());
        } finally {
            redisson.shutdown();
        }
    }
    // end

    @Test
    void allTestsOfAClassHaveOneServer(DevServer server, DevServer same) {
        assertEquals(server.url(), same.url());
        try (DevServer other = DevServer.start("--set", "max-waiters=1")) {
            assertFalse(other.url().equals(server.url()));
        }
    }

    @Test
    void aServerThatDoesNotStartSaysWhy() {
        Exception refused = assertThrows(IllegalStateException.class, () -> DevServer.start("--set", "no-such=1"));
        assertTrue(refused.getMessage().contains("there is no setting no-such"), refused.getMessage());
    }
}
