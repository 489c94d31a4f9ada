package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * Threads of Java and native clients add to one number by GET and then SET. Two holders at once would sooner or later
 * lose an addition, so the sum is exact only if there never were two. Where the locks are wrapped, services with plain
 * Redisson add as well.
 */
class ExclusionTest {
    private static final int ROUNDS = Fleet.IS_WRAPPED ? 3_000 : 20_000;
    private static final int WORKERS_OF_EACH_SIDE = Fleet.IS_WRAPPED ? 2 : 4;

    private final RedissonClient fleet = Fleet.shared();
    private final RedissonClient plain = Fleet.IS_WRAPPED ? Fleet.plainOn(Node.shared().address()) : fleet;

    @AutoClose
    private final Native client = Node.shared().client();

    private final AtomicInteger writers = new AtomicInteger();
    private final AtomicInteger strangers = new AtomicInteger(1_000_000);

    /** What a worker does, on a connection and under a name of its own. */
    interface Round {
        void run(Native own, String me, int number) throws Exception;
    }

    @AfterEach
    void disconnect() {
        if (Fleet.IS_WRAPPED) {
            Fleet.end(plain);
        }
    }

    /** Every other round reads. A reader alongside a writer would sooner or later see one number ahead. */
    @Test
    void no_addition_is_lost_and_no_half_of_one_is_read_under_a_read_write_lock() {
        int rounds = everyone(client -> readOrWrite(Guard.java(client.getReadWriteLock("rw").readLock()),
                Guard.java(client.getReadWriteLock("rw").writeLock())),
                readOrWrite(Guard.rlock("rw", Side.Kind.READ), Guard.rlock("rw", Side.Kind.WRITE)));
        assertEquals("" + rounds / 2, client.say("GET rw:first"));
        assertEquals("" + rounds / 2, client.say("GET rw:second"));
        assertFree("rw");
    }

    /**
     * Some holders never come back: their lease runs out, or their key is deleted. They do not touch the number, so
     * the sum stays exact: each round that adds holds a lease that cannot end under it, and after a lost holder only one
     * next holder may come. (Holders that come back late and do write are for fencing tokens: FencedLockTest.)
     */
    @Test
    void no_addition_is_lost_while_leases_run_out_and_keys_are_deleted() {
        Guard rlock = Guard.rlock("lost", Side.Kind.PLAIN);
        int rounds = everyone(client -> {
            RLock lock = client.getLock("lost");
            Guard java = Guard.java(lock);
            return (own, me, number) -> {
                if (number % 100 == 33) {
                    Fleet.lock(lock, 15, stranger());
                } else if (number % 100 == 66) {
                    Fleet.lock(lock, 200, stranger());
                    lock.forceUnlock();
                } else {
                    addUnder(java, own, me, "lost:number");
                }
            };
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
        assertEquals("" + rounds * 98 / 100, client.say("GET lost:number"));
        assertFree("lost");
    }

    /**
     * Takes the lock without a place in the queue. A hand-over is not announced, so Java would not know that this lease is
     * short, and would sleep for as long as the previous one.
     */
    private static void takeFreeLock(Native own, String nameHolderLease) {
        Patience.until("the lock is free", () -> own.say("RLOCK.ACQUIRE " + nameHolderLease) == null);
    }

    /** @return how many rounds there were */
    private int everyone(Function<RedissonClient, Round> java, Round rlock) {
        List<Round> sides = new ArrayList<>(List.of(java.apply(fleet), rlock));
        if (Fleet.IS_WRAPPED) {
            sides.add(java.apply(plain));
        }
        int roundsEach = ROUNDS / sides.size() / WORKERS_OF_EACH_SIDE;
        Pace pace = new Pace(sides.size());
        try (Crew crew = new Crew()) {
            for (int i = 0; i < sides.size() * WORKERS_OF_EACH_SIDE; i++) {
                int side = i % sides.size();
                String me = "worker-" + i;
                crew.start(() -> work(sides.get(side), pace, side, me, roundsEach));
            }
            crew.finish();
        }
        return roundsEach * sides.size() * WORKERS_OF_EACH_SIDE;
    }

    private void work(Round round, Pace pace, int side, String me, int rounds) throws Exception {
        try (Native own = Node.shared().client()) {
            for (int i = 0; i < rounds; i++) {
                pace.beginRound(side);
                round.run(own, me, i);
                pace.endRound(side);
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

    /** A fresh thread id: the same one would enter again instead of waiting. */
    private long stranger() {
        return strangers.incrementAndGet();
    }

    private static void add(Native own, String number) {
        String before = (String) own.run("GET", number);
        own.run("SET", number, before == null ? 1 : Long.parseLong(before) + 1);
    }

    private void assertFree(String name) {
        assertEquals(List.of(), client.run("HGETALL", name));
    }
}
