package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/**
 * One way to enter and leave what a lock protects, for a worker with a connection and a name of its own. A Java worker is
 * known by its thread instead.
 *
 * <p>The leases are so long that none ends while its holder works, but no longer: now and then a thread of Redisson's
 * sleeps for as long as the lock had left when it asked. A writer's unlock wakes only threads that sleep already, so a
 * thread that is about to sleep misses it and sleeps on.
 */
interface Guard {
    long LEASE_MS = 10_000;

    void enter(Native own, String me);

    void leave(Native own, String me);

    static Guard java(RLock lock) {
        return new Guard() {
            @Override
            public void enter(Native own, String me) {
                lock.lock(LEASE_MS, TimeUnit.MILLISECONDS);
            }

            @Override
            public void leave(Native own, String me) {
                lock.unlock();
            }
        };
    }

    static Guard rlock(String name, Side.Kind kind) {
        return new Guard() {
            @Override
            public void enter(Native own, String me) {
                assertNull(own.say(kind.acquire + " " + name + " " + me + " " + LEASE_MS + " WAIT 0"));
            }

            @Override
            public void leave(Native own, String me) {
                // 0: other readers are still inside.
                Object reply = own.say("RLOCK.RELEASE " + name + " " + me + kind.side);
                assertEquals(true, reply != null, "the hold was still there");
            }
        };
    }
}
