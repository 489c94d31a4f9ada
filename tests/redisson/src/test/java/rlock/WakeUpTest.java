package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;

/**
 * A waiter on one side is woken by the other, at once. The leases are a minute long, and the server itself checks locks with
 * waiters once a second: a waiter that is in time was notified.
 */
class WakeUpTest {
    private static final double JAVA_MS = 100;
    private static final double NATIVE_MS = 10;

    private final RedissonClient fleet = Fleet.shared();

    @AutoClose
    private final Native client = Node.shared().client();

    @ParameterizedTest
    @CsvSource({"PLAIN, PLAIN", "WRITE, READ", "WRITE, WRITE", "READ, WRITE"})
    void a_native_release_wakes_a_java_thread(Side.Kind held, Side.Kind waited) {
        String name = "wake:java:" + held + waited;
        RLock lock = waited.of(fleet, name);
        Latency latency = new Latency();
        for (int i = 0; i < Latency.ROUNDS; i++) {
            assertNull(client.say(held.acquire + " " + name + " me " + Fleet.LONG_MS));
            Waiter waiter = Waiter.java(lock);
            long released = System.nanoTime();
            assertEquals(1L, client.say("RLOCK.RELEASE " + name + " me"));
            latency.add((waiter.grantedAt() - released) / 1e6);
            Patience.until("the Java thread has unlocked", () -> client.say("EXISTS " + name).equals(0L));
        }
        latency.assertMedianWithin(JAVA_MS);
    }

    /** All readers wake before any of them unlocks, which would wake another reader. */
    @Test
    void a_native_write_release_wakes_all_java_readers() {
        RLock lock = fleet.getReadWriteLock("wake:13").readLock();
        assertNull(client.say("RLOCK.WACQUIRE wake:13 me 60000"));
        List<Waiter> readers = Stream.generate(() -> Waiter.javaToStay(lock)).limit(3).collect(Collectors.toList());
        assertEquals(1L, client.say("RLOCK.RELEASE wake:13 me"));
        readers.forEach(Waiter::grantedAt);
        lock.forceUnlock();
    }

    @ParameterizedTest
    @CsvSource({"PLAIN, PLAIN, false", "PLAIN, PLAIN, true", "WRITE, READ, false", "WRITE, READ, true",
        "READ, WRITE, false"})
    void a_java_unlock_wakes_a_native_waiter(Side.Kind held, Side.Kind waited, boolean isForced) {
        String name = "wake:native:" + held + waited + isForced;
        RLock lock = held.of(fleet, name);
        Runnable unlock = isForced ? lock::forceUnlock : lock::unlock;
        Latency latency = new Latency();
        for (int i = 0; i < Latency.ROUNDS; i++) {
            lock.lock(Fleet.LONG_MS, TimeUnit.MILLISECONDS);
            Waiter waiter = Waiter.rlock(Node.shared(), waited.acquire + " " + name + " me " + Fleet.LONG_MS + " WAIT 0");
            long released = System.nanoTime();
            unlock.run();
            latency.add((waiter.grantedAt() - released) / 1e6);
            assertEquals(1L, client.say("RLOCK.RELEASE " + name + " me"));
        }
        latency.assertMedianWithin(NATIVE_MS);
    }

    /** Redisson's clients are notified when the last of the native waiters is done, since only then is the lock free. */
    @Test
    void a_java_thread_behind_native_waiters_is_woken_by_the_last_of_them() throws Exception {
        assumeFalse(Fleet.IS_WRAPPED, "a wrapped lock waits in the queue, and is served in its turn");
        RLock lock = fleet.getLock("wake:10");
        Latency latency = new Latency();
        for (int i = 0; i < Latency.ROUNDS; i++) {
            client.say("RLOCK.ACQUIRE wake:10 first 60000");
            Waiter java = Waiter.java(lock);
            Waiter second = Waiter.rlock(Node.shared(), "RLOCK.ACQUIRE wake:10 second 60000 WAIT 0");
            client.say("RLOCK.RELEASE wake:10 first");
            second.grantedAt();
            assertTrue(java.isWaiting());
            long released = System.nanoTime();
            client.say("RLOCK.RELEASE wake:10 second");
            latency.add((java.grantedAt() - released) / 1e6);
        }
        latency.assertMedianWithin(JAVA_MS);
    }

    /**
     * Java sleeps for as long as the lease in the reply. It is notified of a hand-over to a lease that ends sooner, so that
     * it does not sleep on when that one's holder dies.
     */
    @Test
    void a_java_thread_is_notified_that_a_lease_handed_over_is_shorter() {
        assertNull(client.say("RLOCK.ACQUIRE wake:14 first 60000"));
        long endOfTheFirst = client.number("PEXPIRETIME wake:14");
        Waiter java = Waiter.java(fleet.getLock("wake:14"));
        Waiter second = Waiter.rlock(Node.shared(), "RLOCK.ACQUIRE wake:14 second 100 WAIT 0");
        assertEquals(1L, client.say("RLOCK.RELEASE wake:14 first"));
        second.grantedAt();
        Patience.until("the second lease is over", () -> client.say("EXISTS wake:14").equals(0L));
        java.grantedAt();
        assertTrue(System.currentTimeMillis() < endOfTheFirst, "it was not notified");
    }

    /** Redisson publishes nothing then, so Java readers sleep on (KnownDefectsTest). The server notices all the same. */
    @Test
    void a_java_writer_that_steps_down_to_its_read_admits_native_readers() {
        RReadWriteLock lock = fleet.getReadWriteLock("wake:12");
        Latency latency = new Latency();
        for (int i = 0; i < Latency.ROUNDS; i++) {
            lock.writeLock().lock(Fleet.LONG_MS, TimeUnit.MILLISECONDS);
            lock.readLock().lock(Fleet.LONG_MS, TimeUnit.MILLISECONDS);
            Waiter waiter = Waiter.rlock(Node.shared(), "RLOCK.RACQUIRE wake:12 me 60000 WAIT 0");
            long released = System.nanoTime();
            lock.writeLock().unlock();
            latency.add((waiter.grantedAt() - released) / 1e6);
            lock.readLock().unlock();
            assertEquals(1L, client.say("RLOCK.RELEASE wake:12 me"));
        }
        latency.assertMedianWithin(NATIVE_MS);
    }

    /** The thread is not notified of the end, but it knows how long the lease is. */
    @Test
    void a_java_thread_wakes_when_the_lease_of_a_dead_native_client_ends() {
        RLock lock = fleet.getLock("wake:11");
        Latency latency = new Latency();
        for (int i = 0; i < Latency.ROUNDS; i++) {
            assertNull(client.say("RLOCK.ACQUIRE wake:11 dead 150"));
            long end = client.number("PEXPIRETIME wake:11");
            lock.lock();
            latency.add(System.currentTimeMillis() - end);
            lock.unlock();
        }
        latency.assertMedianWithin(JAVA_MS);
    }
}
