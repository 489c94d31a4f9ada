package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;

/**
 * What Redisson does that a lock should not, and what the commands do there. The Java half of each test holds for all
 * pinned versions, unless it asks {@link Version}: when it fails on a newer Redisson, that one has been fixed.
 */
class KnownDefectsTest {
    private static final long SHORT_MS = 5_000;
    private static final long MINUTE = Fleet.LONG_MS;

    private final RedissonClient fleet = Fleet.shared();

    @AutoClose
    private final Native client = Node.shared().client();

    private String me() {
        return Fleet.holder(fleet);
    }

    @Test
    void javas_watchdog_of_one_reader_shortens_the_lease_of_all() {
        RLock lock = fleet.getReadWriteLock("dog:readers").readLock();
        assertNull(client.say("RLOCK.RACQUIRE dog:readers other " + MINUTE));
        assertTrue(client.number("PTTL dog:readers") > Fleet.WATCHDOG_MS);
        lock.lock();
        Patience.until("the watchdog shortens it", () -> client.number("PTTL dog:readers") <= Fleet.WATCHDOG_MS);
        boolean ofTheOther = client.number("PTTL {dog:readers}:other:rwlock_timeout:1") <= Fleet.WATCHDOG_MS;
        assertEquals(!Version.RENEWS_ONLY_ITS_OWN_READS, ofTheOther);
        lock.unlock();
        client.say("RLOCK.RELEASE dog:readers other ALL");
    }

    @Test
    void a_java_unlock_of_a_read_inside_a_write_shortens_the_write() {
        RReadWriteLock lock = fleet.getReadWriteLock("nested:java");
        lock.writeLock().lock(MINUTE, TimeUnit.MILLISECONDS);
        lock.readLock().lock(SHORT_MS, TimeUnit.MILLISECONDS);
        lock.readLock().lock(SHORT_MS, TimeUnit.MILLISECONDS);
        assertTrue(client.number("PTTL nested:java") > SHORT_MS);
        lock.readLock().unlock();
        assertTrue(client.number("PTTL nested:java") <= SHORT_MS);
        lock.writeLock().forceUnlock();
    }

    @Test
    void a_java_writer_that_steps_down_to_its_read_leaves_java_readers_asleep() {
        RReadWriteLock lock = fleet.getReadWriteLock("down:java");
        lock.writeLock().lock(MINUTE, TimeUnit.MILLISECONDS);
        lock.readLock().lock(MINUTE, TimeUnit.MILLISECONDS);
        Waiter reader = Waiter.java(lock.readLock());
        assertEquals(List.of(), messagesDuring("redisson_rwlock:{down:java}", lock.writeLock()::unlock));
        assertEquals("read", client.say("HGET down:java mode"), "another reader could come in");
        assertTrue(reader.isWaiting());
        lock.readLock().unlock();
        reader.grantedAt();
    }

    /** A current Redisson says "not yours". */
    @Test
    void an_old_java_unlock_of_a_lock_that_is_gone_says_released() {
        RReadWriteLock both = fleet.getReadWriteLock("gone");
        for (RLock lock : List.of(both.readLock(), both.writeLock())) {
            lock.lock(MINUTE, TimeUnit.MILLISECONDS);
            client.say("DEL gone");
            if (Version.HAS_UNLOCK_LATCH) {
                assertThrows(IllegalMonitorStateException.class, lock::unlock);
            } else {
                lock.unlock();
            }
        }
    }

    /** Redisson's plain lock says that its hold was lost, its fair lock does not. The commands have no fair lock. */
    @Test
    void a_java_unlock_of_a_fair_lock_that_is_gone_says_released() {
        RLock fair = fleet.getFairLock("fair");
        fair.lock();
        client.say("DEL fair");
        fair.unlock();
        RLock plain = fleet.getLock("plain");
        plain.lock();
        client.say("DEL plain");
        assertThrows(IllegalMonitorStateException.class, plain::unlock);
        assertNull(client.say("RLOCK.RELEASE plain " + me()));
    }

    /** Why a fair lock must not be shared: its waiters listen to channels of their own, which no command knows. */
    @Test
    void a_native_release_of_a_fair_lock_wakes_no_java_thread() {
        sleepsUntilTheLeaseEnds("fair:shared", fleet.getFairLock("fair:shared"), "RLOCK.RELEASE fair:shared other");
    }

    /** The lock goes without a message, so no Java thread hears of it. Native waiters do: they are in the server. */
    @Test
    void a_deleted_lock_wakes_no_java_thread() {
        sleepsUntilTheLeaseEnds("deleted", fleet.getLock("deleted"), "DEL deleted");
    }

    private void sleepsUntilTheLeaseEnds(String name, RLock lock, String end) {
        assertNull(client.say("RLOCK.ACQUIRE " + name + " other 2000"));
        long due = client.number("PEXPIRETIME " + name);
        Waiter waiter = Waiter.java(lock);
        assertEquals(1L, client.say(end));
        waiter.grantedAt();
        // The thread's timer goes by another clock than the lease.
        long early = due - System.currentTimeMillis();
        assertTrue(early < 50, () -> "it was woken, " + early + " ms before the end");
    }

    /** If a read hold gets into a plain lock's hash, or the reverse, no thread can release it any more. */
    @Test
    void java_mixes_kinds_on_one_key_and_the_commands_refuse() {
        fleet.getLock("kinds").lock(MINUTE, TimeUnit.MILLISECONDS);
        RLock read = fleet.getReadWriteLock("kinds").readLock();
        assertThrows(Native.Refused.class, () -> client.say("RLOCK.RACQUIRE kinds " + me() + " 60000"));
        assertThrows(Native.Refused.class, () -> client.say("RLOCK.WACQUIRE kinds other 60000"));
        read.lock(MINUTE, TimeUnit.MILLISECONDS);
        assertEquals("read", client.say("HGET kinds mode"), "a reader is inside what another holds alone");
        assertEquals("1", client.say("HGET kinds " + me()), "and both holds have become one");
        client.say("DEL kinds");
    }

    /**
     * What is published on a channel while an action runs. The mark of the end has a channel of its own: Redisson listens
     * to the first one too, and drops what arrives together with a message that is no number.
     */
    private static List<Object> messagesDuring(String channel, Runnable action) {
        try (Native listener = Node.shared().client(); Native publisher = Node.shared().client()) {
            listener.say("SUBSCRIBE " + channel);
            listener.say("SUBSCRIBE mark");
            action.run();
            publisher.say("PUBLISH mark end");
            List<Object> messages = new ArrayList<>();
            while (true) {
                List<?> received = (List<?>) listener.receive();
                if (received.get(1).equals("mark")) {
                    return messages;
                }
                messages.add(received.get(2));
            }
        }
    }
}
