package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.redisson.client.RedisException;
import rlock.redisson.LostLock;
import rlock.redisson.Permits;
import rlock.redisson.RedissonLocks;

/** As many holders at once as there are permits, served in their order together with native clients. */
class WrappedPermitsTest {
    private final RedissonLocks locks = WrappedFleet.on(Node.shared().address());

    @AutoClose
    private final Native client = Node.shared().client();

    @AfterEach
    void disconnect() {
        WrappedFleet.end(locks);
    }

    @Test
    void a_thread_has_one_at_most_and_releases_its_own() throws Exception {
        Permits permits = locks.getPermits("one", 1);
        assertThrows(IllegalMonitorStateException.class, permits::release);
        assertTrue(permits.tryAcquire());
        assertTrue(permits.tryAcquire(Duration.ofSeconds(1), Duration.ofMinutes(1)), "asking again restarts the lease");
        assertTrue(permits.remaining().toMillis() > Fleet.LONG_MS / 2);
        assertEquals(1L, client.say("ZCARD one"));
        permits.release();
        assertTrue(permits.remaining().isZero());
        assertThrows(IllegalMonitorStateException.class, permits::release);
        client.say("RLOCK.PACQUIRE one other 60000 LIMIT 1");
        assertFalse(permits.tryAcquire());
        assertFalse(permits.tryAcquire(Duration.ofMillis(50)));
        client.say("RLOCK.RELEASE one other");
        assertThrows(IllegalArgumentException.class, () -> locks.getPermits("one", 0));
        locks.run("one", () -> {
            RedisException e = assertThrows(RedisException.class, permits::tryAcquire);
            assertTrue(e.getMessage().startsWith("WRONGKIND"), e.getMessage());
        });
    }

    @Test
    void a_permit_is_renewed_until_it_is_taken_away_and_the_loss_is_reported() throws Exception {
        BlockingQueue<LostLock> losses = new LinkedBlockingQueue<>();
        locks.onLost(losses::add);
        Permits permits = locks.getPermits("kept", 1);
        permits.acquire();
        long end = client.number("PEXPIRETIME kept");
        Patience.until("it is renewed", () -> client.number("PEXPIRETIME kept") > end);
        assertTrue(losses.isEmpty());
        client.say("RLOCK.BREAK kept");
        LostLock lost = losses.poll(Patience.LIMIT.toSeconds(), TimeUnit.SECONDS);
        assertEquals("kept", lost.getName());
        assertEquals(Thread.currentThread(), lost.getThread().orElseThrow());
        assertThrows(IllegalMonitorStateException.class, permits::release);
    }
}
