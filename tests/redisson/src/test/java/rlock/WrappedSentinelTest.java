package rlock;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.redisson.api.RLock;
import rlock.redisson.RedissonLocks;

/** Failovers by sentinels: the old master goes on granting its queue, as no sentinel has demoted it yet. */
class WrappedSentinelTest {
    private static final int THREADS = 12;
    private static final int FAILOVERS = 3;
    private static final int TURNS_BEFORE_EACH = 100;

    @Test
    @Timeout(240)
    void no_waiter_is_granted_by_an_old_master_that_goes_on_granting_its_queue() {
        Sentinels sentinels = new Sentinels();
        RedissonLocks locks = WrappedFleet.with(config -> config.setSlavesSyncTimeout(100).useSentinelServers()
                .setMasterName(Sentinels.MASTER).addSentinelAddress(sentinels.addresses()).setScanInterval(200));
        try (Turns turns = new Turns()) {
            RLock lock = locks.getLock("failover");
            for (int i = 0; i < THREADS; i++) {
                // What was released at the old master only is still held at the new one, until this lease is over.
                turns.begin(() -> lock.lock(2, TimeUnit.SECONDS), lock::unlock);
            }
            for (int i = 0; i < FAILOVERS; i++) {
                turns.untilMore(TURNS_BEFORE_EACH);
                sentinels.failOver();
                sentinels.settle();
            }
            turns.end();
        } finally {
            WrappedFleet.end(locks);
            sentinels.stop();
        }
    }
}
