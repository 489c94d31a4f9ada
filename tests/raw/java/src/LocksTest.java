import static java.util.Arrays.asList;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.exceptions.JedisDataException;

/** Every reply and error that does not wait, as Jedis gives them. */
class LocksTest extends OnEachProtocol {
    @Test
    void aLockIsItsHolders() {
        // snippet: send
        // The reply is an Object: null, a Long, or a List of these.
        assertNull(redis.sendCommand(Rlock.ACQUIRE, "orders:42", "worker-7", "30000")); // granted
        Object left = redis.sendCommand(Rlock.ACQUIRE, "orders:42", "worker-8", "30000");
        assertTrue((Long) left <= 30_000); // not granted: the ms that are left of the lease
        assertEquals(1L, redis.sendCommand(Rlock.RELEASE, "orders:42", "worker-7")); // free
        // end
        assertLeft(left, 30_000);
    }

    @Test
    void aReleaseHasThreeReplies() {
        assertNull(run(Rlock.ACQUIRE, "k", "ann", "30000"));
        assertNull(run(Rlock.ACQUIRE, "k", "ann", "30000"));
        assertNull(run(Rlock.RELEASE, "k", "bob"));
        assertEquals(0L, run(Rlock.RELEASE, "k", "ann"));
        assertEquals(1L, run(Rlock.RELEASE, "k", "ann"));
        assertNull(run(Rlock.RELEASE, "k", "ann"));
    }

    @Test
    void allGivesBackEveryHold() {
        assertNull(run(Rlock.ACQUIRE, "k", "ann", "30000"));
        assertNull(run(Rlock.ACQUIRE, "k", "ann", "30000"));
        assertEquals(1L, run(Rlock.RELEASE, "k", "ann", "ALL"));
        assertNull(run(Rlock.RELEASE, "k", "ann", "ALL"));
    }

    @Test
    void tokensGrow() {
        List<?> reply = (List<?>) redis.sendCommand(Rlock.ACQUIRE, "orders:42", "worker-7", "30000", "FENCED");
        assertNull(reply.get(0)); // granted,
        assertTrue((Long) reply.get(1) > 0); // with a token
        List<?> refusal = (List<?>) run(Rlock.ACQUIRE, "orders:42", "worker-8", "30000", "FENCED");
        assertLeft(refusal.get(0), 30_000);
        assertNull(refusal.get(1));
        assertEquals(asList(null, 2L), run(Rlock.ACQUIRE, "orders:42", "worker-7", "30000", "FENCED"));
    }

    @Test
    void renewingRestartsTheLease() {
        assertNull(run(Rlock.ACQUIRE, "k", "ann", "30000"));
        assertEquals(1L, run(Rlock.RENEW, "k", "ann", "300000"));
        assertTrue(redis.pttl("k") > 30_000);
        assertEquals(0L, run(Rlock.RENEW, "k", "bob", "30000"));
    }

    @Test
    void readersShareAndAWriterExcludes() {
        assertNull(run(Rlock.RACQUIRE, "k", "ann", "30000"));
        assertNull(run(Rlock.RACQUIRE, "k", "bob", "30000"));
        assertLeft(run(Rlock.WACQUIRE, "k", "cid", "30000"), 30_000);
        assertEquals(0L, run(Rlock.RELEASE, "k", "ann", "READ"));
        assertEquals(1L, run(Rlock.RELEASE, "k", "bob", "READ"));
        assertNull(run(Rlock.WACQUIRE, "k", "cid", "30000"));
        assertLeft(run(Rlock.RACQUIRE, "k", "ann", "30000"), 30_000);
        assertEquals(1L, run(Rlock.RELEASE, "k", "cid", "WRITE"));
    }

    @Test
    void errorsNameWhatIsWrong() {
        assertNull(run(Rlock.RACQUIRE, "orders:42", "worker-7", "30000"));
        var wrongKind = assertThrows(JedisDataException.class,
            () -> redis.sendCommand(Rlock.ACQUIRE, "orders:42", "worker-8", "30000"));
        assertTrue(wrongKind.getMessage().startsWith("WRONGKIND "));
        var badLease = assertThrows(JedisDataException.class,
            () -> redis.sendCommand(Rlock.RACQUIRE, "orders:42", "worker-8", "0"));
        assertTrue(badLease.getMessage().startsWith("ERR lease must be "));
        assertEquals(Set.of("mode", "worker-7"), redis.hkeys("orders:42"));
    }
}
