package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;

/** Either side keeps alive what the other holds under the same name, and either one's unlock ends it. */
class WatchdogTest {
    private static final long LEASE_MS = Fleet.WATCHDOG_MS;

    private final RedissonClient fleet = Fleet.shared();

    @AutoClose
    private final Native client = Node.shared().client();

    private String me() {
        return Fleet.holder(fleet);
    }

    @Test
    void javas_watchdog_keeps_alive_what_native_code_entered_again() {
        RLock lock = fleet.getLock("dog:1");
        lock.lock();
        assertNull(client.say("RLOCK.ACQUIRE dog:1 " + me() + " " + LEASE_MS));
        untilRenewed("dog:1");
        untilRenewed("dog:1");
        assertEquals(0L, client.say("RLOCK.RELEASE dog:1 " + me()));
        untilRenewed("dog:1");
        lock.unlock();
        assertEquals(0L, client.say("EXISTS dog:1"));
    }

    @Test
    void a_java_unlock_ends_javas_watchdog_and_the_native_hold_has_its_lease_alone() {
        RLock lock = fleet.getLock("dog:2");
        lock.lock();
        assertNull(client.say("RLOCK.ACQUIRE dog:2 " + me() + " " + LEASE_MS));
        lock.unlock();
        untilGoneWithoutRenewal("dog:2");
    }

    /**
     * An RLock object knows the lease that it took itself. If it took none, its unlock restarts the lease at the watchdog's
     * timeout. A wrapped lock leaves a lease alone that it has not taken.
     */
    @Test
    void a_java_unlock_shortens_the_native_holds_that_are_left_to_the_watchdogs_timeout() {
        for (int i = 0; i < 2; i++) {
            assertNull(client.say("RLOCK.ACQUIRE dog:7 " + me() + " " + Fleet.LONG_MS));
        }
        fleet.getLock("dog:7").unlock();
        assertEquals(!Fleet.IS_WRAPPED, client.number("PTTL dog:7") <= LEASE_MS);
        assertEquals(1L, client.say("RLOCK.RELEASE dog:7 " + me()));
    }

    @Test
    void a_native_release_ends_javas_watchdog() {
        RLock lock = fleet.getLock("dog:3");
        lock.lock();
        assertEquals(1L, client.say("RLOCK.RELEASE dog:3 " + me()));
        assertNull(client.say("RLOCK.ACQUIRE dog:3 other " + LEASE_MS));
        untilGoneWithoutRenewal("dog:3");
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
    }

    @Test
    void javas_watchdog_keeps_alive_reads_that_native_code_entered_again() {
        RReadWriteLock lock = fleet.getReadWriteLock("dog:5");
        lock.readLock().lock();
        assertNull(client.say("RLOCK.RACQUIRE dog:5 " + me() + " " + LEASE_MS));
        if (Version.KEEPS_READS_ALIVE_THAT_ENTERED_TWICE || Fleet.IS_WRAPPED) {
            untilRenewed("{dog:5}:" + me() + ":rwlock_timeout:1");
            untilRenewed("{dog:5}:" + me() + ":rwlock_timeout:2");
        } else {
            Patience.until("both die", () -> client.say("EXISTS {dog:5}:" + me() + ":rwlock_timeout:2").equals(0L));
            assertEquals("2", client.say("HGET dog:5 " + me()));
            assertEquals(1L, client.say("RLOCK.RENEW dog:5 " + me() + " " + Fleet.LONG_MS), "RENEW puts them back");
        }
        lock.readLock().unlock();
        assertEquals(1L, client.say("RLOCK.RELEASE dog:5 " + me()));
    }

    @Test
    void renew_keeps_alive_what_java_took() {
        RReadWriteLock both = fleet.getReadWriteLock("dog:6");
        List<RLock> locks = List.of(fleet.getLock("dog:4"), both.writeLock(), both.readLock());
        locks.forEach(lock -> lock.lock(LEASE_MS, TimeUnit.MILLISECONDS));
        for (String name : List.of("dog:4", "dog:6")) {
            assertEquals(1L, client.say("RLOCK.RENEW " + name + " " + me() + " " + Fleet.LONG_MS));
            assertTrue(client.number("PTTL " + name) > LEASE_MS);
        }
        assertTrue(client.number("PTTL {dog:6}:" + me() + ":rwlock_timeout:1") > LEASE_MS);
        locks.forEach(RLock::unlock);
        assertEquals(0L, client.say("RLOCK.RENEW dog:4 " + me() + " " + LEASE_MS));
        assertEquals(0L, client.say("RLOCK.RENEW dog:6 " + me() + " " + LEASE_MS));
    }

    private void untilRenewed(String key) {
        long end = client.number("PEXPIRETIME " + key);
        Patience.until(key + " is renewed", () -> {
            long now = client.number("PEXPIRETIME " + key);
            assertTrue(now > 0, key + " is not kept alive");
            return now > end;
        });
    }

    /** A renewal that was under way when the watchdog ended may still come: one, and no other. */
    private void untilGoneWithoutRenewal(String key) {
        Set<Long> ends = new TreeSet<>();
        Patience.until(key + " is gone", () -> {
            long end = client.number("PEXPIRETIME " + key);
            boolean gone = end == -2;
            assertTrue(gone || !ends.add(end) || ends.size() <= 2, key + " is still renewed: it ends at " + ends);
            return gone;
        });
    }
}
