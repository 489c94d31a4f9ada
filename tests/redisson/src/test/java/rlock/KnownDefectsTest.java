package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;

/**
 * What Redisson does that a lock should not, and what the commands do there. The Java half of each test holds for all
 * pinned versions, unless it asks {@link Version}: when it fails on a newer Redisson, that one has been mended.
 */
class KnownDefectsTest {
    private static final long SHORT_MS = 5_000;
    private static final long MISSED_LEASE_MS = 3_000;
    private static final long MINUTE = Fleet.LONG_MS;

    private final RedissonClient fleet = Fleet.shared();
    private final Native client = Node.shared().client();

    @AfterEach
    void disconnect() {
        client.close();
    }

    private String me() {
        return Fleet.holder(fleet);
    }

    /**
     * A write unlock wakes those who sleep at that moment, and is forgotten. A Java reader that has just been refused
     * and does not sleep yet then sleeps until the lease would have ended, whoever the writer was.
     */
    @Test
    void java_misses_a_write_unlock_between_its_refusal_and_its_sleep() throws Exception {
        assertTrue(isAsleepUntilTheLeaseEnds("missed", "RLOCK.WACQUIRE", RReadWriteLock::readLock));
    }

    /** The message of a read release is remembered. So the one above did come through. */
    @Test
    void java_does_not_miss_a_read_unlock_between_its_refusal_and_its_sleep() throws Exception {
        assertFalse(isAsleepUntilTheLeaseEnds("kept", "RLOCK.RACQUIRE", RReadWriteLock::writeLock));
    }

    private boolean isAsleepUntilTheLeaseEnds(String name, String acquire, Function<RReadWriteLock, RLock> side)
            throws Exception {
        try (Gate gate = new Gate(Node.shared().port(), "redisson_rwlock:{" + name + "}")) {
            RedissonClient slow = Fleet.on(gate.address());
            assertNull(client.say(acquire + " " + name + " other " + MISSED_LEASE_MS));
            long end = client.number("PEXPIRETIME " + name);
            RLock lock = side.apply(slow.getReadWriteLock(name));
            Waiter waiter = Waiter.start(() -> lock.lock(MINUTE, TimeUnit.MILLISECONDS));
            gate.awaitHeldReply();
            assertEquals(1L, client.say("RLOCK.RELEASE " + name + " other"));
            gate.awaitMessage();
            // Redisson has the message now, and nothing tells when it has dealt with it.
            Thread.sleep(300);
            gate.open();
            waiter.grantedAt();
            long granted = System.currentTimeMillis();
            lock.forceUnlock();
            Fleet.end(slow);
            return granted >= end;
        }
    }

    /** In the server there is no time between being refused and waiting. */
    @Test
    void a_native_reader_misses_no_write_unlock() {
        RLock lock = fleet.getReadWriteLock("not-missed").writeLock();
        long began = System.nanoTime();
        for (int i = 0; i < 200; i++) {
            lock.lock(MINUTE, TimeUnit.MILLISECONDS);
            try (Native reader = Node.shared().client()) {
                reader.send("RLOCK.RACQUIRE", "not-missed", "reader", MINUTE, "WAIT", 0);
                lock.unlock();
                assertNull(reader.receive());
                assertEquals(1L, reader.say("RLOCK.RELEASE not-missed reader"));
            }
        }
        assertTrue(System.nanoTime() - began < TimeUnit.MILLISECONDS.toNanos(MINUTE), "one slept for a whole lease");
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
    void renew_of_one_reader_leaves_the_lease_of_the_others() {
        RLock lock = fleet.getReadWriteLock("renew:readers").readLock();
        lock.lock(MINUTE, TimeUnit.MILLISECONDS);
        long end = client.number("PEXPIRETIME renew:readers");
        assertNull(client.say("RLOCK.RACQUIRE renew:readers other " + SHORT_MS));
        assertEquals(1L, client.say("RLOCK.RENEW renew:readers other " + SHORT_MS));
        assertEquals(end, client.number("PEXPIRETIME renew:readers"));
        assertEquals(end, client.number("PEXPIRETIME {renew:readers}:" + me() + ":rwlock_timeout:1"));
        lock.unlock();
        assertEquals(1L, client.say("RLOCK.RELEASE renew:readers other"));
    }

    @Test
    void a_java_unlock_of_a_read_inside_a_write_shortens_the_write() {
        RReadWriteLock lock = writeWithTwoShortReads("nested:java");
        lock.readLock().unlock();
        assertTrue(client.number("PTTL nested:java") <= SHORT_MS);
        lock.writeLock().forceUnlock();
    }

    @Test
    void a_native_release_of_a_read_inside_a_write_leaves_the_write_alone() {
        RReadWriteLock lock = writeWithTwoShortReads("nested:rlock");
        long end = client.number("PEXPIRETIME nested:rlock");
        assertEquals(0L, client.say("RLOCK.RELEASE nested:rlock " + me() + " READ"));
        assertEquals(end, client.number("PEXPIRETIME nested:rlock"));
        lock.writeLock().forceUnlock();
    }

    private RReadWriteLock writeWithTwoShortReads(String name) {
        RReadWriteLock lock = fleet.getReadWriteLock(name);
        lock.writeLock().lock(MINUTE, TimeUnit.MILLISECONDS);
        lock.readLock().lock(SHORT_MS, TimeUnit.MILLISECONDS);
        lock.readLock().lock(SHORT_MS, TimeUnit.MILLISECONDS);
        assertTrue(client.number("PTTL " + name) > SHORT_MS);
        return lock;
    }

    @Test
    void a_java_writer_that_steps_down_to_its_read_leaves_java_readers_asleep() {
        RReadWriteLock lock = fleet.getReadWriteLock("down:java");
        Waiter reader = readerBehindAWriterThatReads("down:java", lock);
        assertEquals(List.of(), messagesDuring("redisson_rwlock:{down:java}", lock.writeLock()::unlock));
        assertEquals("read", client.say("HGET down:java mode"), "another reader could come in");
        assertTrue(reader.isWaiting());
        lock.readLock().unlock();
        reader.grantedAt();
    }

    @Test
    void a_native_writer_that_steps_down_to_its_read_wakes_java_readers() {
        RReadWriteLock lock = fleet.getReadWriteLock("down:rlock");
        Waiter reader = readerBehindAWriterThatReads("down:rlock", lock);
        assertEquals(List.of("1"), messagesDuring("redisson_rwlock:{down:rlock}",
                () -> client.say("RLOCK.RELEASE down:rlock " + me() + " WRITE")));
        reader.grantedAt();
        lock.readLock().unlock();
    }

    private Waiter readerBehindAWriterThatReads(String name, RReadWriteLock lock) {
        lock.writeLock().lock(MINUTE, TimeUnit.MILLISECONDS);
        lock.readLock().lock(MINUTE, TimeUnit.MILLISECONDS);
        return Waiter.java(fleet.getReadWriteLock(name).readLock());
    }

    /** A lock that is gone: the first unlock says "not yours", its retry "released"; old versions say that at once. */
    @Test
    void a_java_unlock_of_a_lock_that_is_gone_says_released_when_it_is_retried() {
        RReadWriteLock both = fleet.getReadWriteLock("gone");
        for (RLock lock : List.of(both.readLock(), both.writeLock())) {
            lock.lock(MINUTE, TimeUnit.MILLISECONDS);
            client.say("DEL gone");
            if (!Version.HAS_UNLOCK_LATCH) {
                lock.unlock();
                continue;
            }
            Object[] unlock = SentCommand.scriptDuring(Node.shared(), "redisson_unlock_latch:{gone}",
                    () -> assertThrows(IllegalMonitorStateException.class, lock::unlock));
            // Another request id: Redisson deletes its own latch, now or soon.
            String latch = "redisson_unlock_latch:{gone}:ours";
            Arrays.setAll(unlock, i -> ("" + unlock[i]).startsWith("redisson_unlock_latch") ? latch : unlock[i]);
            assertNull(client.run(unlock));
            assertEquals(1L, client.run(unlock));
            client.run("DEL", latch);
        }
    }

    @Test
    void a_native_release_of_a_lock_that_is_gone_is_nil_each_time() {
        RLock lock = fleet.getReadWriteLock("gone").readLock();
        lock.lock(MINUTE, TimeUnit.MILLISECONDS);
        client.say("DEL gone");
        assertEquals(List.of(), messagesDuring("redisson_rwlock:{gone}", () -> {
            assertNull(client.say("RLOCK.RELEASE gone " + me()));
            assertNull(client.say("RLOCK.RELEASE gone " + me()));
        }));
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
        RLock fair = fleet.getFairLock("fair:shared");
        assertNull(client.say("RLOCK.ACQUIRE fair:shared other 2000"));
        long end = client.number("PEXPIRETIME fair:shared");
        Waiter waiter = Waiter.java(fair);
        assertEquals(1L, client.say("RLOCK.RELEASE fair:shared other"));
        waiter.grantedAt();
        // Its timer goes by another clock than the lease.
        long early = end - System.currentTimeMillis();
        assertTrue(early < 50, () -> "it was woken, " + early + " ms before the end");
    }

    /** The lock goes without a message, so nobody in Java hears of it. Native waiters do: they are in the server. */
    @Test
    void a_deleted_lock_wakes_no_java_thread() {
        assertNull(client.say("RLOCK.ACQUIRE deleted other 2000"));
        long end = client.number("PEXPIRETIME deleted");
        Waiter waiter = Waiter.java(fleet.getLock("deleted"));
        client.say("DEL deleted");
        waiter.grantedAt();
        // Its timer goes by another clock than the lease.
        long early = end - System.currentTimeMillis();
        assertTrue(early < 50, () -> "it was woken, " + early + " ms before the end");
    }

    /** One read hold too many in a plain lock's hash, or the reverse, and nobody can give it back any more. */
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

    /** What is published on a channel while an action runs. */
    private static List<Object> messagesDuring(String channel, Runnable action) {
        try (Native listener = Node.shared().client(); Native publisher = Node.shared().client()) {
            listener.say("SUBSCRIBE " + channel);
            action.run();
            publisher.say("PUBLISH " + channel + " end");
            List<Object> messages = new ArrayList<>();
            while (true) {
                Object message = ((List<?>) listener.receive()).get(2);
                if (message.equals("end")) {
                    return messages;
                }
                messages.add(message);
            }
        }
    }
}
