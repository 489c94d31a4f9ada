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
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.api.options.CommonOptions;
import org.redisson.client.RedisException;
import rlock.redisson.LostLock;
import rlock.redisson.RedissonLocks;

/** All that the interface of a lock has, and what is got by who uses it wrongly. */
class WrappedLockTest {
    private final RedissonLocks locks = WrappedFleet.shared();
    private final Native client = Node.shared().client();

    @AfterEach
    void disconnect() {
        client.close();
    }

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
    void who_does_not_hold_it_cannot_unlock_it() {
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
    void the_other_kind_is_refused_in_the_servers_words() {
        locks.getLock("kinds").lock(60, SECONDS);
        for (RLock other : new RLock[] {locks.getReadWriteLock("kinds").readLock(),
            locks.getReadWriteLock("kinds").writeLock()}) {
            RedisException e = assertThrows(RedisException.class, other::lock);
            assertTrue(e.getMessage().startsWith("WRONGKIND"), e.getMessage());
            assertThrows(RedisException.class, other::unlock);
        }
        assertEquals("1", client.say("HGET kinds " + me()));
        locks.getLock("kinds").unlock();
    }

    @Test
    void a_reader_that_wants_to_write_is_told_that_it_waits_for_itself() {
        locks.getReadWriteLock("upgrade").readLock().lock();
        RLock write = locks.getReadWriteLock("upgrade").writeLock();
        assertFalse(write.tryLock());
        RedisException e = assertThrows(RedisException.class, write::lock);
        assertTrue(e.getMessage().startsWith("DEADLOCK"), e.getMessage());
        locks.getReadWriteLock("upgrade").readLock().unlock();
    }

    @Test
    void a_lease_of_nothing_is_the_watchdogs() throws Exception {
        RLock lock = locks.getLock("nothing");
        lock.lock(0, SECONDS);
        outlivesALease("nothing");
        lock.unlock();
        assertTrue(lock.tryLock(1, -5, SECONDS));
        outlivesALease("nothing");
        lock.unlock();
        assertFalse(lock.isLocked());
    }

    private void outlivesALease(String name) {
        long end = client.number("PEXPIRETIME " + name);
        Patience.until("its first lease is over", () -> System.currentTimeMillis() > end + Fleet.WATCHDOG_MS / 3);
        assertEquals(1L, client.say("EXISTS " + name));
    }

    @Test
    void a_lease_that_was_asked_for_is_not_renewed() {
        endsWithItsLease(locks.getLock("fixed"));
    }

    private void endsWithItsLease(RLock lock) {
        lock.lock(2 * Fleet.WATCHDOG_MS, MILLISECONDS);
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
        for (RLock lock : new RLock[] {locks.getLock("broken"), locks.getReadWriteLock("broken:rw").writeLock(),
            locks.getReadWriteLock("broken:rw").readLock()}) {
            lock.lock();
            lock.lock();
            assertTrue(lock.forceUnlock());
            endsWithItsLease(lock);
        }
        listening.run();
        assertEquals(List.of(), losses);
    }

    /** Redisson's own stops to renew the outer hold when the inner one goes. */
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
    void a_wait_ends_in_time() throws Exception {
        client.say("RLOCK.ACQUIRE busy other 60000");
        RLock lock = locks.getLock("busy");
        long began = System.nanoTime();
        assertFalse(lock.tryLock(300, MILLISECONDS));
        long tookMs = (System.nanoTime() - began) / 1_000_000;
        assertTrue(tookMs >= 300 && tookMs < 3_000, "it took " + tookMs + " ms");
        assertFalse(lock.tryLock(0, SECONDS));
        assertFalse(lock.tryLockAsync(100, MILLISECONDS).get());
        Patience.until("nobody waits", () -> Node.tickets() == 0);
        client.say("RLOCK.RELEASE busy other");
    }

    @Test
    void an_interrupted_wait_leaves_nothing_behind() throws Exception {
        client.say("RLOCK.ACQUIRE interrupted other 60000");
        RLock lock = locks.getLock("interrupted");
        AtomicReference<Throwable> thrown = new AtomicReference<>();
        Thread thread = new Thread(() -> {
            try {
                lock.lockInterruptibly();
            } catch (InterruptedException e) {
                thrown.set(e);
            }
        });
        long before = Node.tickets();
        thread.start();
        Patience.until("it waits", () -> Node.tickets() > before);
        thread.interrupt();
        thread.join(5_000);
        assertEquals(InterruptedException.class, thrown.get().getClass());
        Patience.until("nobody waits", () -> Node.tickets() == before);
        client.say("RLOCK.RELEASE interrupted other");
        assertFalse(lock.isLocked());
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> lock.tryLock(1, SECONDS));
        Thread.currentThread().interrupt();
        assertTrue(lock.tryLock(), "what does not wait is not interrupted");
        lock.unlock();
        assertTrue(Thread.interrupted(), "and the interrupt is kept");
    }

    /** However near the grant it is given up: 300 races, after which nobody holds anything. */
    @Test
    void a_wait_that_is_given_up_as_it_is_granted_gives_the_lock_back() {
        RLock lock = locks.getLock("race");
        for (int i = 0; i < 300; i++) {
            // It may still be granted to the one before, and given back at once.
            assertNull(client.say("RLOCK.ACQUIRE race other 60000 WAIT 20000"));
            long thread = 5_000 + i % 3;
            CompletableFuture<Void> wait = lock.lockAsync(60, SECONDS, thread).toCompletableFuture();
            if (i % 2 == 0) {
                Patience.until("it waits", () -> Node.tickets() > 0 || wait.isDone());
            }
            client.send("RLOCK.RELEASE", "race", "other");
            if (!wait.cancel(true)) {
                Fleet.unlock(lock, thread);
            }
            assertEquals(1L, client.receive());
            Patience.until("nobody holds it", () -> client.say("EXISTS race").equals(0L) && Node.tickets() == 0);
        }
    }

    /** The next request of the same thread is not granted on top of what is being given back. */
    @Test
    void who_gives_up_and_asks_again_at_once_has_one_hold() {
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
            Patience.until("nobody holds it", () -> client.say("EXISTS race:again").equals(0L));
        }
    }

    /** The second request waits for the end of the first, and the third must not wait for that of the second. */
    @Test
    void who_gives_up_twice_may_ask_again() {
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

    @Test
    void tokens_are_drawn_with_the_lease_that_was_asked_for() {
        RFencedLock lock = locks.getFencedLock("fence");
        assertEquals(1, lock.lockAndGetToken(60, SECONDS));
        // Redisson's own forgets what it was asked for.
        assertTrue(client.number("PTTL fence") > 50_000);
        assertEquals(2, lock.lockAndGetTokenAsync().toCompletableFuture().join());
        assertEquals(3, lock.tryLockAndGetToken());
        assertEquals(3, lock.getToken());
        lock.unlock();
        lock.unlock();
        lock.unlock();
        assertFalse(lock.isLocked());
    }

    @Test
    void a_lock_of_many_takes_and_gives_back_all() throws Exception {
        RLock both = locks.getMultiLock(locks.getLock("multi:1"), locks.getLock("multi:2"));
        both.lock(60, SECONDS);
        assertTrue(client.number("PTTL multi:1") > 50_000 && client.number("PTTL multi:2") > 50_000);
        both.unlock();
        client.say("RLOCK.ACQUIRE multi:2 other 60000");
        assertFalse(both.tryLock(200, 60_000, MILLISECONDS));
        assertEquals(0L, client.say("EXISTS multi:1"));
        client.say("RLOCK.RELEASE multi:2 other");
        assertTrue(both.tryLockAsync(1, 60, SECONDS).get());
        assertTrue(client.number("PTTL multi:1") > 50_000);
        both.unlock();
        assertTrue(both.tryLock());
        both.unlock();
        RedissonClient plain = Fleet.plainOn(Node.shared().address());
        assertThrows(IllegalArgumentException.class,
                () -> locks.getMultiLock(locks.getLock("multi:1"), plain.getLock("multi:2")));
        Fleet.end(plain);
    }

    /** It waits for all of them in the server, and holds none meanwhile. */
    @Test
    void a_lock_of_many_waits_for_all_and_holds_none() {
        client.say("RLOCK.ACQUIRE many:2 other 60000");
        long before = Node.tickets();
        Waiter waiter = Waiter.java(locks.getMultiLock(locks.getLock("many:1"), locks.getLock("many:2")));
        Patience.until("it waits", () -> Node.tickets() > before);
        assertEquals(0L, client.say("EXISTS many:1"));
        client.say("RLOCK.RELEASE many:2 other");
        waiter.grantedAt();
    }

    /** Whether it takes them at once or, as it has to do with a writer among them, one after the other. */
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
            Patience.until("nobody waits, and it has nothing",
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
    void how_long_it_can_be_vouched_for_is_known_without_the_server() {
        RLock lock = locks.getLock("vouched");
        assertEquals(Duration.ZERO, locks.remaining(lock));
        lock.lock(60, SECONDS);
        long remaining = locks.remaining(lock).toMillis();
        assertTrue(remaining > 50_000 && remaining <= client.number("PTTL vouched"), "" + remaining);
        assertEquals(Duration.ZERO, locks.remaining(lock, 4_711));
        lock.lock(20, SECONDS);
        assertTrue(locks.remaining(lock).toMillis() <= client.number("PTTL vouched"));
        assertTrue(locks.remaining(locks.getMultiLock(lock, locks.getLock("vouched:not"))).isZero());
        lock.unlock();
        lock.unlock();
        assertEquals(Duration.ZERO, locks.remaining(lock));
    }

    /** The watchdog's lease counts again once it has renewed. */
    @Test
    void an_inner_hold_with_a_longer_lease_is_vouched_for_no_longer_than_the_outer_ones_renewal() {
        RLock lock = locks.getLock("vouched:inner");
        lock.lock();
        lock.lock(60, SECONDS);
        Patience.until("it is renewed, which is known here",
                () -> client.number("PTTL vouched:inner") <= Fleet.WATCHDOG_MS
                        && locks.remaining(lock).toMillis() <= client.number("PTTL vouched:inner"));
        lock.unlock();
        lock.unlock();
    }

    @Test
    void locks_with_options_of_their_own_are_the_same_locks() {
        locks.getLock(CommonOptions.name("options")).lock(60, SECONDS);
        assertTrue(locks.getLock("options").isHeldByCurrentThread());
        locks.getFencedLock(CommonOptions.name("options")).unlock();
        locks.getReadWriteLock(CommonOptions.name("options")).writeLock().lock();
        locks.getReadWriteLock("options").writeLock().unlock();
    }

    @Test
    void what_cannot_be_done_says_why() {
        UnsupportedOperationException e = assertThrows(UnsupportedOperationException.class,
                () -> locks.getLock("condition").newCondition());
        assertTrue(e.getMessage().contains("conditions"));
    }
}
