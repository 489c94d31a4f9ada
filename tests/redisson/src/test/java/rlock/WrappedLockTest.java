package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.NANOSECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.options.CommonOptions;
import org.redisson.client.RedisException;
import rlock.redisson.LostLock;
import rlock.redisson.RedissonLocks;

/** The whole interface of a lock, and what wrong use leads to. */
class WrappedLockTest {
    private final RedissonLocks locks = WrappedFleet.shared();

    @AutoClose
    private final Native client = Node.shared().client();

    private String me() {
        return Fleet.holder(locks.getRedisson());
    }

    @Test
    void what_is_held_can_be_looked_at() throws Exception {
        RLock lock = locks.getLock("look");
        assertFalse(lock.isLocked());
        assertTrue(lock.tryLock());
        lock.lock(60, SECONDS);
        assertTrue(lock.isLocked() && lock.isLockedAsync().get());
        assertTrue(lock.isHeldByCurrentThread() && lock.isHeldByThread(Thread.currentThread().getId()));
        assertTrue(lock.isHeldByThreadAsync(Thread.currentThread().getId()).get());
        assertEquals(2, lock.getHoldCount());
        assertEquals(2, lock.getHoldCountAsync().get());
        assertTrue(lock.remainTimeToLive() > 50_000 && lock.remainTimeToLiveAsync().get() > 50_000);
        assertEquals("look", lock.getName());
        lock.unlock();
        lock.unlockAsync().get();
        assertFalse(lock.isLocked());
    }

    @Test
    void only_its_holder_can_unlock_it() {
        RLock lock = locks.getLock("not-mine");
        IllegalMonitorStateException e = assertThrows(IllegalMonitorStateException.class, lock::unlock);
        assertEquals("attempt to unlock lock, not locked by current thread by node id: " + locks.getRedisson().getId()
                + " thread-id: " + Thread.currentThread().getId(), e.getMessage());
        CompletionException async = assertThrows(CompletionException.class,
                () -> lock.unlockAsync().toCompletableFuture().join());
        assertEquals(IllegalMonitorStateException.class, async.getCause().getClass());
        client.say("RLOCK.ACQUIRE not-mine other 60000");
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        assertTrue(lock.forceUnlock());
        assertFalse(lock.forceUnlock());
    }

    @Test
    void a_reader_that_wants_to_write_gets_an_error_instead_of_waiting_for_itself() {
        locks.getReadWriteLock("upgrade").readLock().lock();
        RLock write = locks.getReadWriteLock("upgrade").writeLock();
        assertFalse(write.tryLock());
        RedisException e = assertThrows(RedisException.class, write::lock);
        assertTrue(e.getMessage().startsWith("DEADLOCK"), e.getMessage());
        locks.getReadWriteLock("upgrade").readLock().unlock();
    }

    @Test
    void a_lease_of_nothing_is_the_watchdogs() throws Exception {
        locks.getLock("nothing").lock(0, SECONDS);
        assertTrue(locks.getLock("less").tryLock(1, -5, SECONDS));
        for (String name : List.of("nothing", "less")) {
            outlivesALease(name);
            locks.getLock(name).unlock();
            assertFalse(locks.getLock(name).isLocked());
        }
    }

    private void outlivesALease(String name) {
        long end = client.number("PEXPIRETIME " + name);
        Patience.until("its first lease is over", () -> System.currentTimeMillis() > end + Fleet.WATCHDOG_MS / 3);
        assertEquals(1L, client.say("EXISTS " + name));
    }

    private void endsWithItsLease(RLock lock) {
        long end = client.number("PEXPIRETIME " + lock.getName());
        Patience.until("it is over", () -> {
            long now = client.number("PEXPIRETIME " + lock.getName());
            assertTrue(now == end || now == -2, "it was renewed");
            return now == -2;
        });
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
    }

    @Test
    void what_was_broken_open_is_neither_renewed_nor_lost() {
        List<LostLock> losses = new CopyOnWriteArrayList<>();
        Runnable listening = locks.onLost(losses::add);
        List<RLock> broken = List.of(locks.getLock("broken"), locks.getReadWriteLock("broken:w").writeLock(),
                locks.getReadWriteLock("broken:r").readLock());
        for (RLock lock : broken) {
            lock.lock();
            lock.lock();
            assertTrue(lock.forceUnlock());
            lock.lock(Fleet.WATCHDOG_MS, MILLISECONDS);
        }
        broken.forEach(this::endsWithItsLease);
        listening.run();
        assertEquals(List.of(), losses);
    }

    /** Redisson's own lock stops renewing the outer hold when the inner one goes. */
    @Test
    void the_outer_hold_is_renewed_when_an_inner_one_with_a_lease_has_gone() {
        RLock lock = locks.getLock("nested");
        lock.lock();
        lock.lock(10, SECONDS);
        lock.unlock();
        assertTrue(client.number("PTTL nested") <= Fleet.WATCHDOG_MS, "the lease is the outer hold's again");
        outlivesALease("nested");
        lock.unlock();
        assertFalse(lock.isLocked());
    }

    @Test
    void what_does_not_wait_keeps_its_interrupt() {
        RLock lock = locks.getLock("interrupted");
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> lock.tryLock(1, SECONDS));
        Thread.currentThread().interrupt();
        assertTrue(lock.tryLock());
        lock.unlock();
        assertTrue(Thread.interrupted());
    }

    /** The next request of the same thread is not granted on top of what is being released. */
    @Test
    void a_caller_that_gives_up_and_asks_again_at_once_has_one_hold() {
        RLock lock = locks.getLock("race:again");
        for (int i = 0; i < 300; i++) {
            assertNull(client.say("RLOCK.ACQUIRE race:again other 60000 WAIT 20000"));
            CompletableFuture<Void> wait = lock.lockAsync(60, SECONDS, 6_000).toCompletableFuture();
            Patience.until("it waits", () -> Node.tickets() > 0);
            client.send("RLOCK.RELEASE", "race:again", "other");
            int holds = wait.cancel(true) ? 0 : 1;
            holds += Fleet.tryLock(lock, 60_000, 6_000) ? 1 : 0;
            assertEquals(1L, client.receive());
            for (; holds > 0; holds--) {
                Fleet.unlock(lock, 6_000);
            }
            Patience.until("it is free", () -> client.say("EXISTS race:again").equals(0L));
        }
    }

    /** The second request waits for the end of the first, and the third must not wait for that of the second. */
    @Test
    void a_caller_that_gives_up_twice_may_ask_again() {
        RLock lock = locks.getLock("race:twice");
        long began = System.nanoTime();
        for (int i = 0; i < 20; i++) {
            assertNull(client.say("RLOCK.ACQUIRE race:twice other 60000 WAIT 20000"));
            CompletableFuture<Void> first = lock.lockAsync(60, SECONDS, 7_000).toCompletableFuture();
            Patience.until("it waits", () -> Node.tickets() > 0);
            assertTrue(first.cancel(true));
            assertTrue(lock.lockAsync(60, SECONDS, 7_000).toCompletableFuture().cancel(true));
            client.send("RLOCK.RELEASE", "race:twice", "other");
            assertEquals(1L, client.receive());
            assertTrue(Fleet.tryLock(lock, 60_000, 7_000));
            Fleet.unlock(lock, 7_000);
            assertEquals(0L, client.say("EXISTS race:twice"), "one hold, and no more");
        }
        long seconds = SECONDS.convert(System.nanoTime() - began, NANOSECONDS);
        assertTrue(seconds < 30, "twenty rounds took " + seconds + " s");
    }

    @Test
    void lock_does_not_end_by_an_interrupt() {
        client.say("RLOCK.ACQUIRE stubborn other 60000");
        RLock lock = locks.getLock("stubborn");
        Thread[] thread = new Thread[1];
        Waiter waiter = Waiter.inAQueue(() -> {
            thread[0] = Thread.currentThread();
            lock.lock();
            assertTrue(Thread.interrupted(), "the interrupt is kept for later");
            lock.unlock();
        });
        thread[0].interrupt();
        thread[0].interrupt();
        assertTrue(waiter.isWaiting());
        client.say("RLOCK.RELEASE stubborn other");
        waiter.grantedAt();
    }

    /** Redisson's own lock forgets the lease that it was asked for. */
    @Test
    void a_token_is_drawn_with_the_lease_that_was_asked_for() {
        RFencedLock lock = locks.getFencedLock("fence");
        long before = lock.lockAndGetToken(60, SECONDS);
        assertTrue(client.number("PTTL fence") > 50_000);
        assertEquals(before, lock.getToken());
        assertTrue(lock.lockAndGetTokenAsync().toCompletableFuture().join() > before);
        lock.unlock();
        lock.unlock();
    }

    @Test
    void a_lock_of_many_has_one_lease_and_one_client() throws Exception {
        RLock both = locks.getMultiLock(locks.getLock("multi:1"), locks.getLock("multi:2"));
        both.lock(60, SECONDS);
        assertTrue(client.number("PTTL multi:1") > 50_000 && client.number("PTTL multi:2") > 50_000);
        both.unlock();
        assertTrue(both.tryLockAsync(1, 60, SECONDS).get());
        assertTrue(client.number("PTTL multi:1") > 50_000);
        both.unlock();
        RLock redissons = locks.getRedisson().getLock("multi:2");
        assertThrows(IllegalArgumentException.class, () -> locks.getMultiLock(locks.getLock("multi:1"), redissons));
    }

    /** Whether the lock takes its parts at once or, as it has to do with a writer among them, one after the other. */
    @Test
    void a_lock_of_many_ends_its_wait_by_an_interrupt_or_an_error_and_keeps_nothing() throws Exception {
        RLock free = locks.getLock("ends:1");
        client.say("RLOCK.ACQUIRE ends:2 other 60000");
        client.say("RLOCK.WACQUIRE ends:3 other 60000");
        for (RLock busy : List.of(locks.getLock("ends:2"), locks.getReadWriteLock("ends:3").writeLock())) {
            RLock both = locks.getMultiLock(free, busy);
            AtomicReference<Throwable> thrown = new AtomicReference<>();
            long before = Node.tickets();
            Thread thread = new Thread(() -> thrown.set(assertThrows(Throwable.class, both::lockInterruptibly)));
            thread.start();
            Patience.until("it waits", () -> Node.tickets() > before);
            thread.interrupt();
            thread.join(5_000);
            assertEquals(InterruptedException.class, thrown.get().getClass());
            Patience.until("no waiter is left, and it has nothing",
                    () -> Node.tickets() == before && client.say("EXISTS ends:1").equals(0L));
        }
        for (RLock other : List.of(locks.getLock("ends:3"), locks.getReadWriteLock("ends:2").readLock())) {
            RLock both = locks.getMultiLock(free, other);
            RedisException e = assertThrows(RedisException.class, both::lock);
            assertTrue(e.getMessage().startsWith("WRONGKIND"), e.getMessage());
            Patience.until("it has nothing", () -> client.say("EXISTS ends:1").equals(0L));
        }
        client.say("RLOCK.RELEASE ends:2 other");
        client.say("RLOCK.RELEASE ends:3 other");
    }

    @Test
    void of_two_leases_and_of_several_locks_the_first_end_counts() {
        RLock lock = locks.getLock("vouched");
        lock.lock(60, SECONDS);
        lock.lock(20, SECONDS);
        long left = client.number("PTTL vouched");
        assertTrue(locks.remaining(lock).toMillis() <= left);
        assertEquals(Duration.ZERO, locks.remaining(lock, 4_711));
        assertTrue(locks.remaining(locks.getMultiLock(lock, locks.getLock("vouched:not"))).isZero());
        lock.unlock();
        lock.unlock();
    }

    /** The watchdog's lease counts again once it has renewed. */
    @Test
    void an_inner_hold_with_a_longer_lease_is_guaranteed_no_longer_than_the_outer_ones_renewal() {
        RLock lock = locks.getLock("vouched:inner");
        lock.lock();
        lock.lock(60, SECONDS);
        Patience.until("it is renewed, which is known here",
                () -> client.number("PTTL vouched:inner") <= Fleet.WATCHDOG_MS
                        && locks.remaining(lock).toMillis() <= client.number("PTTL vouched:inner"));
        lock.unlock();
        lock.unlock();
    }

    /** One releases what the other took, under one client's name. */
    @Test
    void a_wrapped_and_a_plain_lock_of_one_client_are_one() {
        RLock same = locks.getLock("one");
        RLock redissons = locks.getRedisson().getLock("one");
        same.lock();
        redissons.lock();
        assertEquals(2, same.getHoldCount());
        assertEquals(false, Fleet.tryLock(same, Fleet.LONG_MS, 4_711));
        same.unlock();
        redissons.unlock();
        assertFalse(same.isLocked());
    }

    @Test
    void locks_with_options_of_their_own_are_the_same_locks() {
        locks.getLock(CommonOptions.name("options")).lock(60, SECONDS);
        assertTrue(locks.getLock("options").isHeldByCurrentThread());
        locks.getFencedLock(CommonOptions.name("options")).unlock();
        locks.getReadWriteLock(CommonOptions.name("options")).writeLock().lock();
        locks.getReadWriteLock("options").writeLock().unlock();
    }
}
