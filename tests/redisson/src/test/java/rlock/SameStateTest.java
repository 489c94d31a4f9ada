package rlock;

import static rlock.Side.Kind.PLAIN;
import static rlock.Side.Kind.READ;
import static rlock.Side.Kind.WRITE;

import java.util.Random;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Both sides store the same, byte for byte, so each can go on with what the other began. */
class SameStateTest {
    /**
     * If an RLock object did not take a hold, its unlock restarts the lease of the holds that are left at the watchdog's
     * timeout. A wrapped lock leaves that lease alone.
     */
    private static final long WATCHDOG_MS = Fleet.LONG_MS;

    private static final int STEPS = 500;

    private static Native observer;
    private static RedissonClient client;

    @BeforeAll
    static void connect() {
        observer = Node.shared().client();
        client = Fleet.with(config -> {
            config.setLockWatchdogTimeout(WATCHDOG_MS);
            config.useSingleServer().setAddress(Node.shared().address());
        });
    }

    @AfterAll
    static void disconnect() {
        Fleet.end(client);
        observer.close();
    }

    @Test
    void the_same_random_steps_leave_the_same_plain_locks() {
        new Comparison(observer, client, "state:plain")
                .run(STEPS, dice -> Side.JavaSide.of(client), nativeSide(), SameStateTest::leaseOf, PLAIN);
    }

    @Test
    void the_same_random_steps_leave_the_same_read_write_locks() {
        new Comparison(observer, client, "state:rw")
                .run(STEPS, dice -> Side.JavaSide.of(client), nativeSide(), SameStateTest::leaseOf, READ, WRITE);
    }

    @Test
    void a_plain_lock_can_change_sides_at_each_step() {
        new Comparison(observer, client, "mixed:plain").withLeasesThatStay(Fleet.IS_WRAPPED)
                .run(STEPS, SameStateTest::mixed, nativeSide(), thread -> WATCHDOG_MS, PLAIN);
    }

    @Test
    void a_read_write_lock_can_change_sides_at_each_step() {
        new Comparison(observer, client, "mixed:rw").withLeasesThatStay(Fleet.IS_WRAPPED)
                .run(STEPS, SameStateTest::mixed, nativeSide(), thread -> WATCHDOG_MS, READ, WRITE);
    }

    private static Side nativeSide() {
        return new Side.NativeSide(observer, client, "");
    }

    private static long leaseOf(long thread) {
        return Fleet.LONG_MS + (thread - 900) * 10_000;
    }

    /** A side that does each step by one of the two sides, as the dice say. */
    private static Side mixed(Random dice) {
        Side java = Side.JavaSide.of(client);
        Side nativeSide = nativeSide();
        return new Side() {
            @Override
            public boolean take(String name, Kind kind, long thread, long leaseMs) {
                return either().take(name, kind, thread, leaseMs);
            }

            @Override
            public boolean give(String name, Kind kind, long thread, long leaseMs) {
                return either().give(name, kind, thread, leaseMs);
            }

            private Side either() {
                return dice.nextBoolean() ? java : nativeSide;
            }
        };
    }
}
