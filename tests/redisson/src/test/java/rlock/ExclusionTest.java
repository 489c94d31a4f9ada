package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;

/**
 * Threads of Java and native clients add to one number by GET and then SET. Two holders at once would sooner or later
 * lose an addition, so the sum is exact only if there never were two.
 */
class ExclusionTest {
    private static final int ROUNDS = 20_000;
    private static final int WORKERS_OF_EACH_SIDE = 4;

    private final RedissonClient fleet = Fleet.shared();
    private final Native client = Node.shared().client();
    private final AtomicInteger writers = new AtomicInteger();
    private final AtomicInteger strangers = new AtomicInteger(1_000_000);

    /** What a worker does, on a connection and under a name of its own. */
    interface Round {
        void run(Native own, String me, int number) throws Exception;
    }

    @AfterEach
    void disconnect() {
        client.close();
    }

    @Test
    void no_addition_is_lost_under_a_plain_lock() {
        Guard java = Guard.java(fleet.getLock("sum"));
        Guard rlock = Guard.rlock("sum", Side.Kind.PLAIN);
        everyone((own, me, number) -> addUnder(java, own, me, "sum:number"),
                (own, me, number) -> addUnder(rlock, own, me, "sum:number"));
        assertEquals("" + ROUNDS, client.say("GET sum:number"));
        assertNobodyHolds("sum");
    }

    /** Every other round reads. A reader that is beside a writer would sooner or later see one number ahead. */
    @Test
    void no_addition_is_lost_and_no_half_of_one_is_read_under_a_read_write_lock() {
        RReadWriteLock lock = fleet.getReadWriteLock("rw");
        Round java = readOrWrite(Guard.java(lock.readLock()), Guard.java(lock.writeLock()));
        Round rlock = readOrWrite(Guard.rlock("rw", Side.Kind.READ), Guard.rlock("rw", Side.Kind.WRITE));
        everyone(java, rlock);
        assertEquals("" + ROUNDS / 2, client.say("GET rw:first"));
        assertEquals("" + ROUNDS / 2, client.say("GET rw:second"));
        assertNobodyHolds("rw");
    }

    /**
     * Some holders never come back: their lease runs out, or their key is deleted. They do not touch the number, so
     * the sum stays exact: each round that adds holds a lease that cannot end under it, and whoever comes after a lost
     * holder must come alone. (Holders that come back late and do write are for fencing tokens: FencedLockTest.)
     */
    @Test
    void no_addition_is_lost_while_leases_run_out_and_keys_are_deleted() {
        RLock lock = fleet.getLock("lost");
        Guard java = Guard.java(lock);
        Guard rlock = Guard.rlock("lost", Side.Kind.PLAIN);
        everyone((own, me, number) -> {
            if (number % 100 == 33) {
                Fleet.lock(lock, 15, stranger());
            } else if (number % 100 == 66) {
                Fleet.lock(lock, 200, stranger());
                lock.forceUnlock();
            } else {
                addUnder(java, own, me, "lost:number");
            }
        }, (own, me, number) -> {
            if (number % 100 == 33) {
                takeFreeLock(own, "lost gone-" + me + number + " 15");
            } else if (number % 100 == 66) {
                takeFreeLock(own, "lost gone-" + me + number + " 200");
                own.say("DEL lost");
            } else {
                addUnder(rlock, own, me, "lost:number");
            }
        });
        assertEquals("" + ROUNDS * 98 / 100, client.say("GET lost:number"));
        assertNobodyHolds("lost");
    }

    /**
     * Without a place in the queue: a lock that is handed over is not announced, so Java would not know that this lease
     * is a short one, and would sleep for as long as the one before it.
     */
    private static void takeFreeLock(Native own, String nameHolderLease) {
        Patience.until("the lock is free", () -> own.say("RLOCK.ACQUIRE " + nameHolderLease) == null);
    }

    private void everyone(Round java, Round rlock) {
        Pace pace = Pace.start();
        try (Crew crew = new Crew()) {
            for (int i = 0; i < WORKERS_OF_EACH_SIDE; i++) {
                String me = "worker-" + i;
                crew.start(() -> work(java, pace, me));
                crew.start(() -> work(rlock, pace.ofTheOtherSide(), me));
            }
            crew.finish();
        }
    }

    private void work(Round round, Pace pace, String me) throws Exception {
        try (Native own = Node.shared().client()) {
            for (int i = 0; i < ROUNDS / (2 * WORKERS_OF_EACH_SIDE); i++) {
                pace.beginRound();
                round.run(own, me, i);
                pace.endRound();
            }
        }
    }

    private void addUnder(Guard guard, Native own, String me, String number) {
        guard.enter(own, me);
        assertEquals(1, writers.incrementAndGet(), "holders at once");
        add(own, number);
        writers.decrementAndGet();
        guard.leave(own, me);
    }

    private Round readOrWrite(Guard read, Guard write) {
        return (own, me, number) -> {
            if (number % 2 == 0) {
                write(write, own, me);
            } else {
                read(read, own, me);
            }
        };
    }

    private void write(Guard guard, Native own, String me) {
        guard.enter(own, me);
        assertEquals(1, writers.incrementAndGet(), "writers at once");
        add(own, "rw:first");
        add(own, "rw:second");
        writers.decrementAndGet();
        guard.leave(own, me);
    }

    private void read(Guard guard, Native own, String me) {
        guard.enter(own, me);
        assertEquals(0, writers.get(), "writers beside a reader");
        assertEquals(own.say("GET rw:first"), own.say("GET rw:second"));
        guard.leave(own, me);
    }

    /** A thread id that nobody else has: the same one would enter again instead of waiting. */
    private long stranger() {
        return strangers.incrementAndGet();
    }

    private static void add(Native own, String number) {
        String before = (String) own.run("GET", number);
        own.run("SET", number, before == null ? 1 : Long.parseLong(before) + 1);
    }

    private void assertNobodyHolds(String name) {
        assertEquals(List.of(), client.run("HGETALL", name));
    }
}
