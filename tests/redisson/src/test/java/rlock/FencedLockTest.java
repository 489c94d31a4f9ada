package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.redisson.api.RFencedLock;
import org.redisson.api.RedissonClient;

/** One counter of fencing tokens for both sides. Not compiled for a Redisson without RFencedLock. */
class FencedLockTest {
    private final RedissonClient fleet = Fleet.shared();

    @AutoClose
    private final Native client = Node.shared().client();

    private String me() {
        return Fleet.holder(fleet);
    }

    @Test
    void the_same_random_steps_leave_the_same_locks_and_counters() {
        Side java = new Side.JavaSide((name, kind) -> fleet.getFencedLock(name));
        Side rlock = new Side.NativeSide(client, fleet, " FENCED");
        // Redisson counts its tokens; by the clock the counters would differ.
        client.say("CONFIG SET rlock.tokens count");
        try {
            new Comparison(client, fleet, "state:fenced").run(500, dice -> java, rlock,
                    thread -> Fleet.LONG_MS + thread, Side.Kind.PLAIN);
        } finally {
            client.say("CONFIG SET rlock.tokens clock");
        }
    }

    @Test
    void tokens_grow_from_one_side_to_the_other_and_with_each_entry() {
        RFencedLock lock = fleet.getFencedLock("tokens");
        long first = lock.lockAndGetToken();
        long second = nativeToken("tokens", me());
        assertTrue(second > first);
        long third = lock.tryLockAndGetToken(0, 60, TimeUnit.SECONDS);
        assertTrue(third > second);
        assertEquals(Map.of("NAME", "hash {" + me() + "=3}", "redisson_lock_token:{NAME}", "string " + third),
                Snapshot.of(client, "tokens").values());
        client.say("RLOCK.RELEASE tokens " + me() + " ALL");
        long fourth = nativeToken("tokens", "other");
        assertTrue(fourth > third);
        assertEquals(fourth, lock.getToken());
        assertNull(lock.tryLockAndGetToken(0, 60, TimeUnit.SECONDS));
        client.say("RLOCK.RELEASE tokens other");
        lock.lock();
        assertTrue(lock.getToken() > fourth);
        lock.unlock();
    }

    @Test
    void a_holder_that_works_longer_than_its_lease_has_a_lower_token_than_the_next_one() {
        long late = fleet.getFencedLock("tokens:late").tryLockAndGetToken(0, 15, TimeUnit.MILLISECONDS);
        Patience.until("its lease has ended", () -> client.say("EXISTS tokens:late").equals(0L));
        assertTrue(nativeToken("tokens:late", "other") > late);
        client.say("RLOCK.RELEASE tokens:late other");
    }

    @Test
    void tokens_of_plain_redisson_continue_from_the_servers_clock() {
        Node node = Node.start();
        Native own = node.client();
        RedissonClient plain = Fleet.plainOn(node.address());
        RFencedLock lock = plain.getFencedLock("continued");
        assertEquals(1, lock.lockAndGetToken());
        lock.unlock();
        long before = System.currentTimeMillis() * 1_000;
        own.say("RLOCK.ACQUIRE continued other 60000 FENCED");
        own.say("RLOCK.RELEASE continued other");
        assertTrue(lock.lockAndGetToken() > before);
        lock.unlock();
        Fleet.end(plain);
        own.close();
        node.stop();
    }

    private long nativeToken(String name, String holder) {
        List<?> reply = (List<?>) client.say("RLOCK.ACQUIRE " + name + " " + holder + " 60000 FENCED");
        assertNull(reply.get(0));
        return (Long) reply.get(1);
    }
}
