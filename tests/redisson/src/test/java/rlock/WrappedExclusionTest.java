package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import rlock.redisson.RedissonLocks;

/**
 * A fleet in which one service is wrapped, one is plain Redisson and one speaks the commands: together they add to one
 * number by GET and then SET, and none loses an addition.
 */
class WrappedExclusionTest {
    private static final int SIDES = 3;
    private static final int WORKERS_OF_EACH_SIDE = 2;
    private static final int ROUNDS_EACH = 500;

    /** Without it the native queue would never be empty, and plain Redisson never at the lock (docs/redisson.md). */
    private static final int LEAD = 4;

    private final RedissonLocks wrapped = WrappedFleet.on(Node.shared().address());
    private final RedissonClient plain = Fleet.plainOn(Node.shared().address());
    private final Native client = Node.shared().client();
    private final AtomicInteger inside = new AtomicInteger();
    private final Semaphore[] turns = new Semaphore[SIDES];

    @AfterEach
    void disconnect() {
        WrappedFleet.end(wrapped);
        Fleet.end(plain);
        client.close();
    }

    @Test
    void three_kinds_of_services_lose_no_addition_under_a_plain_lock() {
        everyone("three", Guard.java(wrapped.getLock("three")), Guard.java(plain.getLock("three")),
                Guard.rlock("three", Side.Kind.PLAIN));
    }

    @Test
    void nor_under_the_write_side_of_a_read_write_lock() {
        everyone("three:rw", Guard.java(wrapped.getReadWriteLock("three:rw").writeLock()),
                Guard.java(plain.getReadWriteLock("three:rw").writeLock()),
                Guard.rlock("three:rw", Side.Kind.WRITE));
    }

    /** One releases what the other took, under one client's name. */
    @Test
    void a_wrapped_and_a_plain_lock_of_one_client_are_one() {
        RLock one = wrapped.getLock("one");
        RedissonClient redisson = Fleet.plainOn(Node.shared().address());
        RLock same = RedissonLocks.of(redisson).getLock("one");
        RLock own = redisson.getLock("one");
        same.lock();
        own.lock();
        assertEquals(2, same.getHoldCount());
        assertEquals(false, one.tryLock());
        same.unlock();
        own.unlock();
        assertEquals(false, one.isLocked());
        Fleet.end(redisson);
    }

    private void everyone(String name, Guard... sides) {
        for (int side = 0; side < SIDES; side++) {
            turns[side] = new Semaphore(LEAD);
        }
        try (Crew crew = new Crew()) {
            for (int i = 0; i < SIDES * WORKERS_OF_EACH_SIDE; i++) {
                int side = i % SIDES;
                String me = "worker-" + i;
                crew.start(() -> work(sides[side], side, me, name + ":number"));
            }
            crew.finish();
        }
        assertEquals("" + SIDES * WORKERS_OF_EACH_SIDE * ROUNDS_EACH, client.say("GET " + name + ":number"));
        assertEquals(0L, client.say("EXISTS " + name));
    }

    private void work(Guard guard, int side, String me, String number) throws Exception {
        try (Native own = Node.shared().client()) {
            for (int round = 0; round < ROUNDS_EACH; round++) {
                turns[side].acquire();
                guard.enter(own, me);
                assertEquals(1, inside.incrementAndGet(), "holders at once");
                String before = (String) own.run("GET", number);
                own.run("SET", number, before == null ? 1 : Long.parseLong(before) + 1);
                inside.decrementAndGet();
                guard.leave(own, me);
                turns[(side + 1) % SIDES].release();
            }
        }
    }
}
