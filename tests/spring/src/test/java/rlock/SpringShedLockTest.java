package rlock;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import rlock.redisson.RedissonLocks;
import rlock.shedlock.RlockLockProvider;

/** What ShedLock asks of its providers. */
class SpringShedLockTest {
    private static final Duration LONG = Duration.ofMinutes(5);
    private static final AtomicInteger names = new AtomicInteger();

    private static RedissonClient redisson;
    private static RlockLockProvider provider;

    private final String job = "job-" + names.incrementAndGet();

    @BeforeAll
    static void connect() {
        Config config = new Config();
        config.useSingleServer().setAddress(Node.shared().address());
        redisson = Redisson.create(config);
        provider = new RlockLockProvider(RedissonLocks.of(redisson));
    }

    @AfterAll
    static void leave() {
        redisson.shutdown();
    }

    private Optional<SimpleLock> lock(Duration atMost, Duration atLeast) {
        return provider.lock(new LockConfiguration(ClockProvider.now(), job, atMost, atLeast));
    }

    private SimpleLock locked(Duration atMost, Duration atLeast) {
        return lock(atMost, atLeast).orElseThrow();
    }

    private boolean isLocked() {
        return redisson.getLock("shedlock:" + job).isLocked();
    }

    private long leaseMs() {
        return redisson.getLock("shedlock:" + job).remainTimeToLive();
    }

    @Test
    void the_same_thread_does_not_get_it_twice() {
        SimpleLock lock = locked(LONG, Duration.ZERO);
        assertTrue(lock(LONG, Duration.ZERO).isEmpty());
        lock.unlock();
        assertFalse(isLocked());
        locked(LONG, Duration.ZERO).unlock();
    }

    @Test
    void at_most_is_the_lease() {
        SimpleLock lock = locked(Duration.ofSeconds(100), Duration.ZERO);
        assertTrue(leaseMs() > 50_000 && leaseMs() <= 100_000);
        lock.unlock();
        locked(Duration.ofMillis(50), Duration.ZERO);
        Patience.until("the lease is over", () -> !isLocked());
        locked(LONG, Duration.ZERO).unlock();
    }

    /** An unlock leaves the rest of at-least as the lease, by one command. */
    @Test
    void at_least_is_kept_when_it_is_unlocked() {
        locked(LONG, Duration.ofSeconds(100)).unlock();
        assertTrue(lock(LONG, Duration.ZERO).isEmpty());
        assertTrue(leaseMs() > 50_000 && leaseMs() <= 100_000);
    }

    @Test
    void a_late_unlock_leaves_the_next_holder_alone() {
        SimpleLock late = locked(Duration.ofMillis(50), Duration.ZERO);
        Patience.until("the lease is over", () -> !isLocked());
        SimpleLock next = locked(LONG, Duration.ZERO);
        late.unlock();
        assertTrue(isLocked());
        next.unlock();
    }

    @Test
    void it_is_extended() {
        SimpleLock first = locked(Duration.ofSeconds(60), Duration.ZERO);
        SimpleLock second = CompletableFuture.supplyAsync(
                () -> first.extend(LONG, Duration.ZERO)).join().orElseThrow();
        assertTrue(leaseMs() > 60_000);
        assertThrows(IllegalStateException.class, () -> first.extend(LONG, Duration.ZERO));
        assertThrows(IllegalStateException.class, first::unlock);
        second.unlock();
        assertFalse(isLocked());
        assertThrows(IllegalStateException.class, () -> second.extend(LONG, Duration.ZERO));
    }

    @Test
    void an_extended_lock_keeps_its_new_at_least() {
        SimpleLock lock = locked(Duration.ofSeconds(60), Duration.ZERO);
        lock.extend(LONG, Duration.ofSeconds(100)).orElseThrow().unlock();
        assertTrue(isLocked());
    }

    @Test
    void what_is_over_is_not_extended() {
        SimpleLock lock = locked(Duration.ofMillis(50), Duration.ZERO);
        Patience.until("the lease is over", () -> !isLocked());
        assertTrue(lock.extend(LONG, Duration.ZERO).isEmpty());
        assertFalse(isLocked());
    }

    @Test
    void without_the_module_it_is_refused() {
        Node without = Node.withoutModule();
        Config config = new Config();
        config.useSingleServer().setAddress(without.address());
        RedissonClient plain = Redisson.create(config);
        assertThrows(IllegalArgumentException.class, () -> new RlockLockProvider(RedissonLocks.ifAvailable(plain)));
        plain.shutdown();
        without.stop();
    }
}
