package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;

/**
 * Who waits on one side is woken by the other, at once. The leases are a minute long, and the server's own look at
 * waited-for locks comes once a second: whoever is in time was told.
 */
class WakeUpTest {
    private static final double JAVA_MS = 100;
    private static final double NATIVE_MS = 10;

    private final RedissonClient fleet = Fleet.shared();
    private final Native client = Node.shared().client();

    interface Wake {
        void run() throws Exception;
    }

    @AfterEach
    void disconnect() {
        client.close();
    }

    @Test
    void a_native_release_wakes_a_java_thread() throws Exception {
        wakesJava(fleet.getLock("wake:1"), "RLOCK.ACQUIRE wake:1", "wake:1");
    }

    @Test
    void a_native_write_release_wakes_a_java_reader() throws Exception {
        wakesJava(fleet.getReadWriteLock("wake:2").readLock(), "RLOCK.WACQUIRE wake:2", "wake:2");
    }

    /** All of them: none gives its lock back before the last is in, which would wake another. */
    @Test
    void a_native_write_release_wakes_all_java_readers() {
        RLock lock = fleet.getReadWriteLock("wake:13").readLock();
        assertNull(client.say("RLOCK.WACQUIRE wake:13 me 60000"));
        List<Waiter> readers = Stream.generate(() -> Waiter.javaToStay(lock)).limit(3).collect(Collectors.toList());
        assertEquals(1L, client.say("RLOCK.RELEASE wake:13 me"));
        readers.forEach(Waiter::grantedAt);
        lock.forceUnlock();
    }

    @Test
    void a_native_write_release_wakes_a_java_writer() throws Exception {
        wakesJava(fleet.getReadWriteLock("wake:3").writeLock(), "RLOCK.WACQUIRE wake:3", "wake:3");
    }

    @Test
    void a_native_read_release_wakes_a_java_writer() throws Exception {
        wakesJava(fleet.getReadWriteLock("wake:4").writeLock(), "RLOCK.RACQUIRE wake:4", "wake:4");
    }

    @Test
    void a_java_unlock_wakes_a_native_waiter() throws Exception {
        RLock lock = fleet.getLock("wake:5");
        wakesNative(lock, "RLOCK.ACQUIRE wake:5", "wake:5", lock::unlock);
    }

    @Test
    void a_java_force_unlock_wakes_a_native_waiter() throws Exception {
        RLock lock = fleet.getLock("wake:6");
        wakesNative(lock, "RLOCK.ACQUIRE wake:6", "wake:6", lock::forceUnlock);
    }

    @Test
    void a_java_write_unlock_wakes_a_native_reader() throws Exception {
        RLock lock = fleet.getReadWriteLock("wake:7").writeLock();
        wakesNative(lock, "RLOCK.RACQUIRE wake:7", "wake:7", lock::unlock);
    }

    @Test
    void a_java_write_force_unlock_wakes_a_native_reader() throws Exception {
        RLock lock = fleet.getReadWriteLock("wake:8").writeLock();
        wakesNative(lock, "RLOCK.RACQUIRE wake:8", "wake:8", lock::forceUnlock);
    }

    @Test
    void a_java_read_unlock_wakes_a_native_writer() throws Exception {
        RLock lock = fleet.getReadWriteLock("wake:9").readLock();
        wakesNative(lock, "RLOCK.WACQUIRE wake:9", "wake:9", lock::unlock);
    }

    /** Redisson's clients are told when the last of the native waiters is done, since only then is the lock free. */
    @Test
    void a_java_thread_behind_native_waiters_is_woken_by_the_last_of_them() throws Exception {
        assumeFalse(Fleet.IS_WRAPPED, "it stands in the queue then, and is served in its turn: WrappedQueueTest");
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
     * Java sleeps for as long as the lease that it was told. It is told of a hand-over to one that ends sooner, so that
     * it does not sleep on when that one's holder dies.
     */
    @Test
    void a_java_thread_is_told_that_a_lease_handed_over_is_shorter() {
        assertNull(client.say("RLOCK.ACQUIRE wake:14 first 60000"));
        long endOfTheFirst = client.number("PEXPIRETIME wake:14");
        Waiter java = Waiter.java(fleet.getLock("wake:14"));
        Waiter second = Waiter.rlock(Node.shared(), "RLOCK.ACQUIRE wake:14 second 100 WAIT 0");
        assertEquals(1L, client.say("RLOCK.RELEASE wake:14 first"));
        second.grantedAt();
        Patience.until("the second lease is over", () -> client.say("EXISTS wake:14").equals(0L));
        java.grantedAt();
        assertTrue(System.currentTimeMillis() < endOfTheFirst, "it was not told");
    }

    /** Redisson tells nobody of it, so Java readers sleep on (KnownDefectsTest). The server sees it all the same. */
    @Test
    void a_java_writer_that_steps_down_to_its_read_lets_native_readers_in() {
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

    /** Nobody tells it of that; but it has been told how long the lease is. */
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

    private void wakesJava(RLock lock, String acquire, String name) throws Exception {
        Latency latency = new Latency();
        for (int i = 0; i < Latency.ROUNDS; i++) {
            assertNull(client.say(acquire + " me " + Fleet.LONG_MS));
            Waiter waiter = Waiter.java(lock);
            long released = System.nanoTime();
            assertEquals(1L, client.say("RLOCK.RELEASE " + name + " me"));
            latency.add((waiter.grantedAt() - released) / 1e6);
            Patience.until("the Java thread has unlocked", () -> client.say("EXISTS " + name).equals(0L));
        }
        latency.assertMedianWithin(JAVA_MS);
    }

    private void wakesNative(RLock lock, String acquire, String name, Wake wake) throws Exception {
        Latency latency = new Latency();
        for (int i = 0; i < Latency.ROUNDS; i++) {
            lock.lock(Fleet.LONG_MS, TimeUnit.MILLISECONDS);
            Waiter waiter = Waiter.rlock(Node.shared(), acquire + " me " + Fleet.LONG_MS + " WAIT 0");
            long released = System.nanoTime();
            wake.run();
            latency.add((waiter.grantedAt() - released) / 1e6);
            assertEquals(1L, client.say("RLOCK.RELEASE " + name + " me"));
        }
        latency.assertMedianWithin(NATIVE_MS);
    }
}
