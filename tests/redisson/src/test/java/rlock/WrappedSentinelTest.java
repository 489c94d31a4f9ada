package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.redisson.api.RLock;
import org.redisson.client.RedisException;
import rlock.redisson.RedissonLocks;

/** Failovers by sentinels: the old master goes on granting its queue, as nobody has told it yet that it is none. */
class WrappedSentinelTest {
    private static final int THREADS = 12;
    private static final int FAILOVERS = 5;
    private static final int ROUNDS_BEFORE_EACH = 100;

    private final AtomicInteger inside = new AtomicInteger();
    private final AtomicInteger overlaps = new AtomicInteger();
    private final AtomicInteger rounds = new AtomicInteger();
    private final AtomicBoolean isOver = new AtomicBoolean();

    @Test
    @Timeout(240)
    void nobody_gets_in_by_an_old_master_that_goes_on_granting_its_queue() {
        Sentinels sentinels = new Sentinels();
        RedissonLocks locks = WrappedFleet.with(config -> config.setSlavesSyncTimeout(100).useSentinelServers().setMasterName(Sentinels.MASTER)
                .addSentinelAddress(sentinels.addresses()).setScanInterval(200));
        try (Crew crew = new Crew()) {
            for (int i = 0; i < THREADS; i++) {
                crew.start(() -> work(locks.getLock("failover")));
            }
            for (int i = 0; i < FAILOVERS; i++) {
                int before = rounds.get();
                Patience.until("all take turns", () -> rounds.get() > before + ROUNDS_BEFORE_EACH);
                sentinels.failOver();
                sentinels.settle();
            }
            isOver.set(true);
            crew.finish();
        } finally {
            isOver.set(true);
            WrappedFleet.end(locks);
            sentinels.stop();
        }
        assertEquals(0, overlaps.get(), "times that two were inside");
    }

    private void work(RLock lock) {
        try (Native own = Node.shared().client()) {
            while (!isOver.get()) {
                try {
                    // What was given back at the old master only is still held at the new one, until this is over.
                    lock.lock(2, TimeUnit.SECONDS);
                    stay(own);
                    lock.unlock();
                } catch (RedisException | IllegalMonitorStateException atAFailover) {
                    // That may happen; two inside may not.
                }
            }
        }
    }

    private void stay(Native own) {
        if (inside.incrementAndGet() != 1) {
            overlaps.incrementAndGet();
        }
        for (int i = 0; i < 10; i++) {
            own.say("PING");
        }
        inside.decrementAndGet();
        rounds.incrementAndGet();
    }
}
