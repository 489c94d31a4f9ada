package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.redisson.api.RFencedLock;
import org.redisson.api.RedissonClient;

/**
 * Holders that outlive their lease and write all the same. No lock can prevent that; what it protects can, by refusing
 * a token that is lower than the last it saw. The sum is then exact for the additions that it took, and it must have
 * refused each that came too late and taken all others. Not compiled for a Redisson without RFencedLock.
 */
class FencedExclusionTest {
    private static final int WORKERS_OF_EACH_SIDE = 4;
    private static final int ROUNDS_EACH = 500;
    private static final int STALLS_EVERY = 20;
    private static final long STALLED_LEASE_MS = 15;

    private final RedissonClient fleet = Fleet.shared();
    private final Number number = new Number();

    /** A number that lets nobody near it whose token it has seen outdone. Reading and writing are two steps. */
    private static final class Number {
        private long newest;
        private long value;

        synchronized long read(long token) {
            newest = Math.max(newest, token);
            return value;
        }

        synchronized boolean write(long token, long newValue) {
            if (token < newest) {
                return false;
            }
            value = newValue;
            return true;
        }
    }

    /** One worker's way into the lock. */
    interface Entrance {
        long take(long leaseMs) throws Exception;

        boolean isHeld();

        void giveBack();
    }

    @Test
    void who_outlived_its_lease_is_refused_and_nobody_else() {
        Pace pace = Pace.start();
        try (Crew crew = new Crew()) {
            for (int i = 0; i < WORKERS_OF_EACH_SIDE; i++) {
                String me = "worker-" + i;
                crew.start(() -> work(java(fleet.getFencedLock("fenced")), pace));
                crew.start(() -> {
                    try (Native own = Node.shared().client()) {
                        work(rlock(own, me), pace.ofTheOtherSide());
                    }
                });
            }
            crew.finish();
        }
        // A round that stalls adds once: late and refused, then again in time.
        assertEquals(2 * WORKERS_OF_EACH_SIDE * ROUNDS_EACH, number.value);
    }

    private static Entrance java(RFencedLock lock) {
        return new Entrance() {
            @Override
            public long take(long leaseMs) {
                return lock.tryLockAndGetToken(Fleet.LONG_MS, leaseMs, TimeUnit.MILLISECONDS);
            }

            @Override
            public boolean isHeld() {
                return lock.isHeldByCurrentThread();
            }

            @Override
            public void giveBack() {
                lock.unlock();
            }
        };
    }

    private static Entrance rlock(Native own, String me) {
        return new Entrance() {
            @Override
            public long take(long leaseMs) {
                Object reply = own.say("RLOCK.ACQUIRE fenced " + me + " " + leaseMs + " FENCED WAIT 0");
                return (Long) ((List<?>) reply).get(1);
            }

            @Override
            public boolean isHeld() {
                return own.say("HEXISTS fenced " + me).equals(1L);
            }

            @Override
            public void giveBack() {
                assertEquals(1L, own.say("RLOCK.RELEASE fenced " + me));
            }
        };
    }

    private void work(Entrance lock, Pace pace) throws Exception {
        for (int i = 0; i < ROUNDS_EACH; i++) {
            pace.beginRound();
            if (i % STALLS_EVERY == 0) {
                stall(lock);
            } else {
                long token = lock.take(Fleet.LONG_MS);
                addInTime(token, number.read(token));
                lock.giveBack();
            }
            pace.endRound();
        }
    }

    /** Reads under a lease that runs out, and writes only after a later grant has been read under. */
    private void stall(Entrance lock) throws Exception {
        long late = lock.take(STALLED_LEASE_MS);
        long seen = number.read(late);
        Patience.until("the lease is over", () -> !lock.isHeld());
        long token = lock.take(Fleet.LONG_MS);
        long value = number.read(token);
        assertFalse(number.write(late, seen + 1), "taken from a holder that had lost the lock");
        addInTime(token, value);
        lock.giveBack();
    }

    private void addInTime(long token, long value) {
        assertTrue(number.write(token, value + 1), "refused while it holds the lock");
    }
}
