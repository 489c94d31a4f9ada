package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import rlock.redisson.InMemoryLocks;
import rlock.redisson.LockLostException;
import rlock.redisson.LossReason;
import rlock.redisson.LostLock;
import rlock.redisson.Permits;
import rlock.redisson.RedissonLocks;

/** Locks in memory do what locks in a server do: each test runs with both. */
class SpringInMemoryTest {
    private static final AtomicInteger names = new AtomicInteger();
    private static final RedissonClient redisson = connected();

    private final String name = "both-" + names.incrementAndGet();

    private static RedissonClient connected() {
        Config config = new Config();
        // A loss is noticed at the next renewal, a third of this later.
        config.setLockWatchdogTimeout(3_000).useSingleServer().setAddress(Node.shared().address());
        return Redisson.create(config);
    }

    static List<RedissonLocks> both() {
        return List.of(new InMemoryLocks(), RedissonLocks.of(redisson));
    }

    @AfterAll
    static void leave() {
        redisson.shutdown();
    }

    private static boolean othersGet(RLock lock) {
        return CompletableFuture.supplyAsync(() -> {
            boolean isTaken = lock.tryLock();
            if (isTaken) {
                lock.unlock();
            }
            return isTaken;
        }).join();
    }

    @ParameterizedTest
    @MethodSource("both")
    void a_plain_lock_is_its_threads_until_the_last_unlock(RedissonLocks locks) throws Exception {
        RLock lock = locks.getLock(name);
        lock.lock();
        assertTrue(lock.tryLock(1, TimeUnit.SECONDS));
        assertEquals(2, lock.getHoldCount());
        lock.unlock();
        assertTrue(lock.isHeldByCurrentThread());
        assertTrue(locks.remaining(lock).toMillis() > 0);
        assertFalse(othersGet(lock));
        assertFalse(CompletableFuture.supplyAsync(lock::isHeldByCurrentThread).join());
        lock.unlock();
        assertFalse(lock.isLocked());
        assertEquals(Duration.ZERO, locks.remaining(lock));
        assertTrue(othersGet(lock));
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
    }

    @ParameterizedTest
    @MethodSource("both")
    void waiters_are_served_in_their_order(RedissonLocks locks) {
        RLock lock = locks.getLock(name);
        List<Integer> served = Collections.synchronizedList(new ArrayList<>());
        lock.lock();
        try (Crew crew = new Crew()) {
            for (int i = 0; i < 3; i++) {
                int number = i;
                var waits = new CountDownLatch(1);
                Thread[] waiter = new Thread[1];
                crew.start(() -> {
                    waiter[0] = Thread.currentThread();
                    waits.countDown();
                    locks.run(name, () -> served.add(number));
                });
                Patience.until("it waits", () -> waits.getCount() == 0 && isWaiting(waiter[0]) && isQueued(locks, number + 1));
            }
            lock.unlock();
            crew.finish();
        }
        assertEquals(List.of(0, 1, 2), served);
    }

    private static boolean isWaiting(Thread thread) {
        return thread.getState() == Thread.State.WAITING || thread.getState() == Thread.State.TIMED_WAITING;
    }

    private boolean isQueued(RedissonLocks locks, int count) {
        if (locks instanceof InMemoryLocks) {
            return true;
        }
        try (Native client = Node.shared().client()) {
            return ("" + client.say("RLOCK.INSPECT " + name)).contains("waiter-count, " + count + ",");
        }
    }

    @ParameterizedTest
    @MethodSource("both")
    void a_lease_ends_by_itself_and_is_restarted(RedissonLocks locks) {
        RLock lock = locks.getLock(name);
        lock.lock(10, TimeUnit.MILLISECONDS);
        Patience.until("the lease is over", () -> !lock.isLocked());
        assertFalse(locks.renew(lock, Duration.ofMinutes(1)));
        lock.lock(1, TimeUnit.MINUTES);
        assertTrue(locks.renew(lock, Duration.ofMinutes(5)));
        assertTrue(lock.remainTimeToLive() > 100_000);
        lock.unlock();
    }

    @ParameterizedTest
    @MethodSource("both")
    void futures_take_any_threads_id(RedissonLocks locks) {
        RLock lock = locks.getLock(name);
        assertTrue(lock.tryLockAsync(0, 60_000, TimeUnit.MILLISECONDS, -7).toCompletableFuture().join());
        assertTrue(lock.isHeldByThread(-7));
        var next = lock.lockAsync(-8).toCompletableFuture();
        assertFalse(next.isDone());
        lock.unlockAsync(-7).toCompletableFuture().join();
        next.join();
        lock.unlockAsync(-8).toCompletableFuture().join();
        assertFalse(lock.isLocked());
    }

    @ParameterizedTest
    @MethodSource("both")
    void readers_share_and_a_writer_is_alone(RedissonLocks locks) {
        RLock read = locks.getReadWriteLock(name).readLock();
        RLock write = locks.getReadWriteLock(name).writeLock();
        read.lock();
        assertTrue(othersGet(read));
        assertFalse(othersGet(write));
        read.unlock();
        write.lock();
        assertTrue(read.tryLock());
        assertFalse(othersGet(read));
        read.unlock();
        write.unlock();
        assertTrue(othersGet(read));
    }

    @ParameterizedTest
    @MethodSource("both")
    void tokens_grow(RedissonLocks locks) {
        var lock = locks.getFencedLock(name);
        long first = lock.lockAndGetToken();
        lock.unlock();
        assertTrue(lock.tryLockAndGetToken() > first);
        lock.unlock();
    }

    @ParameterizedTest
    @MethodSource("both")
    void several_locks_are_taken_all_or_none(RedissonLocks locks) {
        RLock first = locks.getLock(name + "{1}");
        RLock second = locks.getLock(name + "-b{1}");
        RLock all = locks.getMultiLock(first, second);
        second.lock();
        assertFalse(othersGet(all));
        assertFalse(first.isLocked());
        second.unlock();
        all.lock();
        assertFalse(othersGet(first));
        all.unlock();
        assertTrue(othersGet(second));
    }

    @ParameterizedTest
    @MethodSource("both")
    void permits_are_limited(RedissonLocks locks) {
        Permits permits = locks.getPermits(name, 2);
        permits.acquire();
        CompletableFuture.runAsync(() -> {
            assertTrue(permits.tryAcquire());
            assertFalse(CompletableFuture.supplyAsync(permits::tryAcquire).join());
            permits.release();
        }).join();
        permits.release();
        assertThrows(IllegalMonitorStateException.class, permits::release);
    }

    private void lose(RedissonLocks locks) {
        if (locks instanceof InMemoryLocks memory) {
            memory.lose(name);
        } else {
            locks.getRedisson().getKeys().delete(name);
        }
    }

    @ParameterizedTest
    @MethodSource("both")
    void a_loss_interrupts_the_work_and_is_reported(RedissonLocks locks) {
        var reported = new CompletableFuture<LostLock>();
        Runnable end = locks.onLost(reported::complete);
        RLock lock = locks.getLock(name);
        var lost = assertThrows(LockLostException.class, () -> locks.call(lock, () -> {
            lose(locks);
            Patience.until("the work is interrupted", Thread::interrupted);
            return null;
        }));
        assertEquals(name, lost.getLost().getName());
        assertEquals(LossReason.NOT_HELD, lost.getReason());
        assertEquals(name, reported.join().getName());
        end.run();
    }

    @ParameterizedTest
    @MethodSource("both")
    void an_interrupt_ends_a_wait(RedissonLocks locks) {
        RLock lock = locks.getLock(name);
        lock.lock();
        var thrown = new CompletableFuture<Throwable>();
        Thread waiter = new Thread(() -> thrown.complete(assertThrows(InterruptedException.class, lock::lockInterruptibly)));
        waiter.start();
        Patience.until("it waits", () -> isWaiting(waiter));
        waiter.interrupt();
        thrown.join();
        lock.unlock();
        // The server may get the release before it gets the end of the wait: then the lock makes a detour.
        Patience.until("others get the lock", () -> othersGet(lock));
    }
}
