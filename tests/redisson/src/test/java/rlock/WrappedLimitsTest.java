package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import rlock.redisson.Permits;
import rlock.redisson.RedissonLocks;

/** The longest times that Java can express all mean "forever"; and times that make no sense. */
class WrappedLimitsTest {
    private static final Duration FOR_EVER = ChronoUnit.FOREVER.getDuration();

    private final RedissonLocks locks = WrappedFleet.shared();
    private final RedissonLocks fair = RedissonLocks.of(
            locks.getRedisson(), RedissonLocks.Options.defaults().fairIsNative());

    @AutoClose
    private final Native client = Node.shared().client();

    private Map<String, RLock> kinds(String name) {
        Map<String, RLock> kinds = new LinkedHashMap<>();
        kinds.put("plain", locks.getLock(name + "plain"));
        kinds.put("fenced", locks.getFencedLock(name + "fenced"));
        kinds.put("fair", fair.getFairLock(name + "fair"));
        kinds.put("read", locks.getReadWriteLock(name + "read").readLock());
        kinds.put("write", locks.getReadWriteLock(name + "write").writeLock());
        kinds.put("at once", locks.getMultiLock(locks.getLock(name + "a"), locks.getLock(name + "b")));
        kinds.put("one by one", locks.getMultiLock(
                locks.getLock(name + "c"), locks.getReadWriteLock(name + "d").writeLock()));
        return kinds;
    }

    @Test
    void a_free_lock_of_each_kind_is_acquired_by_a_wait_without_an_end() throws Exception {
        for (TimeUnit unit : TimeUnit.values()) {
            for (Map.Entry<String, RLock> kind : kinds("free:").entrySet()) {
                RLock lock = kind.getValue();
                assertTrue(lock.tryLock(Long.MAX_VALUE, unit), kind.getKey());
                lock.unlock();
                assertTrue(lock.tryLock(Long.MAX_VALUE, Fleet.LONG_MS, TimeUnit.MILLISECONDS), kind.getKey());
                lock.unlock();
            }
        }
        RFencedLock fenced = locks.getFencedLock("free:token");
        assertTrue(fenced.tryLockAndGetToken(Long.MAX_VALUE, TimeUnit.DAYS) > 0);
        fenced.unlock();
        assertEquals(1, locks.call(locks.getLock("free:call"), FOR_EVER, () -> 1));
    }

    @Test
    void a_wait_without_an_end_lasts_until_the_lock_is_free() {
        client.say("RLOCK.ACQUIRE busy other 60000");
        RLock lock = locks.getLock("busy");
        Map<String, Callable<Boolean>> waits = Map.of(
                "tryLock", () -> lock.tryLock(Long.MAX_VALUE, TimeUnit.NANOSECONDS),
                "with a lease", () -> lock.tryLock(Long.MAX_VALUE, Fleet.LONG_MS, TimeUnit.MILLISECONDS),
                "of several", () -> locks.getMultiLock(lock).tryLock(Long.MAX_VALUE, TimeUnit.DAYS));
        Waiter[] waiters = waits.entrySet().stream().map(wait -> Waiter.inAQueue(() -> {
            try {
                assertTrue(wait.getValue().call(), wait.getKey());
                lock.unlock();
            } catch (Exception e) {
                throw new AssertionError(wait.getKey(), e);
            }
        })).toArray(Waiter[]::new);
        client.say("RLOCK.RELEASE busy other");
        for (Waiter waiter : waiters) {
            waiter.grantedAt();
        }
    }

    @Test
    void permits_are_waited_for_and_leased_without_an_end() throws Exception {
        Permits permits = locks.getPermits("permits:ever", 1);
        assertTrue(permits.tryAcquire(FOR_EVER));
        permits.release();
        assertTrue(permits.tryAcquire(Duration.ofMillis(Long.MAX_VALUE), Duration.ofDays(1_000_000)));
        assertTrue(permits.remaining().compareTo(Duration.ofDays(30_000)) > 0);
        permits.release();
    }

    /** Values that Redisson's interfaces define are no errors: a wait of -1 tries once, a lease of 0 means the watchdog. */
    @Test
    void what_makes_no_sense_is_refused_before_anything_is_sent() {
        Permits permits = locks.getPermits("sense", 1);
        List<Executable> senseless = List.of(
                () -> locks.getLock(""), () -> locks.getFencedLock(""), () -> fair.getFairLock(""),
                () -> locks.getReadWriteLock("").readLock(), () -> locks.getReadWriteLock("").writeLock(),
                () -> locks.getMultiLock(), () -> locks.getPermits("", 1),
                () -> locks.getPermits("sense", 0), () -> locks.getPermits("sense", 100_001),
                () -> permits.tryAcquire(Duration.ofMillis(-1)), () -> permits.tryAcquire(FOR_EVER, Duration.ZERO),
                () -> permits.tryAcquire(FOR_EVER, Duration.ofMillis(-1)),
                () -> locks.call(locks.getLock("sense"), Duration.ofMillis(-1), () -> null),
                () -> locks.renew(locks.getLock("sense"), Duration.ZERO));
        for (int i = 0; i < senseless.size(); i++) {
            IllegalArgumentException e = assertThrows(IllegalArgumentException.class, senseless.get(i), "" + i);
            assertFalse(e.getMessage().isEmpty());
        }
        assertEquals(0L, client.say("EXISTS sense"));
        RedissonClient unwatched = Fleet.plainWith(config ->
                config.setLockWatchdogTimeout(0).useSingleServer().setAddress(Node.shared().address()));
        assertThrows(IllegalArgumentException.class, () -> RedissonLocks.of(unwatched));
        Fleet.end(unwatched);
    }

    /** A century is as good as forever; the sum of such a time and the clock's would be negative. */
    @Test
    void a_lease_of_centuries_cuts_no_hold_short() {
        RLock lock = locks.getLock("centuries");
        lock.lock(1, TimeUnit.MINUTES);
        lock.lock(Long.MAX_VALUE / 2, TimeUnit.MILLISECONDS);
        Duration remaining = locks.remaining(lock);
        assertTrue(remaining.compareTo(Duration.ofMinutes(1)) <= 0 && remaining.toSeconds() > 30, "" + remaining);
        lock.unlock();
        lock.unlock();
    }
}
