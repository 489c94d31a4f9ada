package rlock;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Lock;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.springframework.integration.leader.Context;
import org.springframework.integration.leader.DefaultCandidate;
import org.springframework.integration.support.leader.LockRegistryLeaderInitiator;
import rlock.redisson.RedissonLocks;
import rlock.spring.RlockLockRegistry;

/** Spring Integration's locks, and the leader that it elects by them. */
class SpringRegistryTest {
    private static final AtomicInteger names = new AtomicInteger();

    private final String name = "resource-" + names.incrementAndGet();
    private RedissonClient redisson;
    private RlockLockRegistry registry;

    @BeforeEach
    void connect() {
        Config config = new Config();
        config.useSingleServer().setAddress(Node.shared().address());
        redisson = Redisson.create(config);
        registry = new RlockLockRegistry(RedissonLocks.of(redisson));
    }

    @AfterEach
    void leave() {
        redisson.shutdown();
    }

    private String key() {
        return "lock-registry:" + name;
    }

    private boolean isLocked() {
        return redisson.getLock(key()).isLocked();
    }

    private boolean othersGetIt() {
        return CompletableFuture.supplyAsync(() -> {
            Lock lock = registry.obtain(name);
            boolean isTaken = lock.tryLock();
            if (isTaken) {
                lock.unlock();
            }
            return isTaken;
        }).join();
    }

    private void loseIt() {
        assertTrue(RedissonLocks.of(redisson).getLock(key()).forceUnlock());
    }

    @Test
    void one_thread_has_it_as_often_as_it_takes_it() throws Exception {
        Lock lock = registry.obtain(name);
        lock.lock();
        assertTrue(registry.obtain(name).tryLock());
        assertTrue(lock.tryLock(1, TimeUnit.SECONDS));
        lock.lockInterruptibly();
        for (int held = 4; held > 0; held--) {
            assertFalse(othersGetIt());
            CompletableFuture.runAsync(() -> assertThrows(IllegalStateException.class, lock::unlock)).join();
            registry.obtain(name).unlock();
        }
        assertTrue(othersGetIt());
        assertThrows(IllegalStateException.class, lock::unlock);
        assertThrows(UnsupportedOperationException.class, lock::newCondition);
        assertThrows(IllegalArgumentException.class, () -> registry.obtain(new Object()));
    }

    @Test
    void unlocking_what_was_lost_says_so_each_time() {
        Lock lock = registry.obtain(name);
        lock.lock();
        lock.lock();
        loseIt();
        assertThrows(ConcurrentModificationException.class, lock::unlock);
        assertThrows(ConcurrentModificationException.class, lock::unlock);
        assertThrows(IllegalStateException.class, lock::unlock);
    }

    @Test
    void a_key_has_one_object_and_of_too_many_those_that_are_held_stay() {
        Lock held = registry.obtain(name);
        held.lock();
        assertSame(held, registry.obtain(name));
        registry.setCacheCapacity(2);
        Lock unused = registry.obtain("unused");
        Lock last = registry.obtain("last");
        assertSame(last, registry.obtain("last"));
        assertSame(held, registry.obtain(name));
        assertNotSame(unused, registry.obtain("unused"));
        registry.expireUnusedOlderThan(-1);
        assertNotSame(last, registry.obtain("last"));
        registry.obtain(name).unlock();
    }

    @Test
    void it_runs_work_under_the_lock() throws Throwable {
        registry.executeLocked(name, () -> assertFalse(othersGetIt()));
        assertTrue(othersGetIt());
    }

    @Test
    void only_what_is_held_is_renewed() {
        assertThrows(IllegalStateException.class, () -> registry.renewLock(name));
        assertThrows(IllegalStateException.class, () -> registry.renewLock(name, Duration.ofMinutes(5)));
        Lock lock = registry.obtain(name);
        lock.lock();
        registry.renewLock(name);
        registry.renewLock(name, Duration.ofMinutes(5));
        assertTrue(redisson.getLock(key()).remainTimeToLive() > 100_000);
        lock.unlock();
    }

    @Test
    void what_was_lost_is_not_acquired_again_without_a_warning() throws Exception {
        Lock lock = registry.obtain(name);
        lock.lock();
        loseIt();
        assertFalse(lock.tryLock());
        assertFalse(isLocked());
        // The caller was warned, and may begin again.
        assertTrue(lock.tryLock());
        loseIt();
        assertThrows(ConcurrentModificationException.class, lock::lock);
        lock.lock();
        loseIt();
        assertFalse(lock.tryLock(1, TimeUnit.SECONDS));
        lock.lockInterruptibly();
        loseIt();
        assertThrows(ConcurrentModificationException.class, lock::lockInterruptibly);
    }

    private static final class Candidate extends DefaultCandidate {
        final AtomicInteger led = new AtomicInteger();
        final AtomicInteger leaders;

        Candidate(String id, String role, AtomicInteger leaders) {
            super(id, role);
            this.leaders = leaders;
        }

        @Override
        public void onGranted(Context context) {
            leaders.incrementAndGet();
            led.incrementAndGet();
        }

        @Override
        public void onRevoked(Context context) {
            leaders.decrementAndGet();
        }
    }

    @Test
    void it_elects_one_leader_and_the_next_when_the_lock_is_gone() {
        AtomicInteger leaders = new AtomicInteger();
        var first = new Candidate("first", name, leaders);
        var second = new Candidate("second", name, leaders);
        var initiators = new LockRegistryLeaderInitiator[] {
            new LockRegistryLeaderInitiator(registry, first), new LockRegistryLeaderInitiator(registry, second)};
        for (var initiator : initiators) {
            initiator.setHeartBeatMillis(20);
            initiator.start();
        }
        try {
            Patience.until("one leads", () -> first.led.get() + second.led.get() == 1);
            int leading = first.led.get() == 1 ? 0 : 1;
            initiators[leading].stop();
            Patience.until("the other leads", () -> first.led.get() == 1 && second.led.get() == 1);
            Patience.until("it alone", () -> leaders.get() == 1);
        } finally {
            initiators[0].stop();
            initiators[1].stop();
        }
        Patience.until("none leads", () -> leaders.get() == 0 && !isLocked());
    }
}
