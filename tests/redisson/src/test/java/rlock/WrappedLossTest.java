package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.redisson.api.RLock;
import rlock.redisson.LockBusyException;
import rlock.redisson.LockLostException;
import rlock.redisson.LockObserver;
import rlock.redisson.LossReason;
import rlock.redisson.LostLock;
import rlock.redisson.RedissonLocks;

/** What happens to the work when its lock is lost, and which callers learn of it. */
class WrappedLossTest {
    private final RedissonLocks locks = WrappedFleet.on(Node.shared().address());

    @AutoClose
    private final Native client = Node.shared().client();

    @AfterEach
    void disconnect() {
        WrappedFleet.end(locks);
    }

    private static void takeAway(Native by, String name) {
        by.say("RLOCK.BREAK " + name);
        by.say("RLOCK.ACQUIRE " + name + " other 60000");
    }

    @Test
    void the_future_of_a_loss_completes_when_the_lock_is_taken_away() throws Exception {
        RLock lock = locks.getLock("future");
        lock.lock();
        CompletableFuture<LostLock> lost = locks.lost(lock);
        takeAway(client, "future");
        LostLock what = lost.get(Patience.LIMIT.toSeconds(), SECONDS);
        assertEquals("future", what.getName());
        assertSame(Thread.currentThread(), what.getThread().orElseThrow());
        assertTrue(locks.remaining(lock).isZero());
    }

    @Test
    void the_future_is_cancelled_and_no_loss_reported_by_the_last_unlock_or_the_end_of_a_lease_of_its_own() {
        List<LostLock> losses = new CopyOnWriteArrayList<>();
        locks.onLost(losses::add);
        RLock lock = locks.getLock("unlocked");
        lock.lock();
        lock.lock();
        CompletableFuture<LostLock> lost = locks.lost(lock);
        lock.unlock();
        assertFalse(lost.isDone());
        lock.unlock();
        Patience.until("it is cancelled", lost::isCancelled);
        assertThrows(IllegalMonitorStateException.class, () -> locks.lost(lock));
        lock.lock(Fleet.WATCHDOG_MS, MILLISECONDS);
        CompletableFuture<LostLock> ended = locks.lost(lock);
        Patience.until("its end has cancelled it", ended::isCancelled);
        lock.lock();
        CompletableFuture<LostLock> broken = locks.lost(lock);
        lock.forceUnlock();
        Patience.until("on purpose is no loss", broken::isCancelled);
        assertEquals(List.of(), losses);
    }

    @Test
    void of_several_locks_the_first_loss_counts() throws Exception {
        RLock all = locks.getMultiLock(locks.getLock("several:1"), locks.getLock("several:2"));
        all.lock();
        CompletableFuture<LostLock> lost = locks.lost(all);
        takeAway(client, "several:2");
        assertEquals("several:2", lost.get(Patience.LIMIT.toSeconds(), SECONDS).getName());
        locks.getLock("several:1").unlock();
    }

    private LostLock lost(String name, Runnable cause) throws Exception {
        RLock lock = locks.getLock(name);
        lock.lock();
        CompletableFuture<LostLock> lost = locks.lost(lock);
        cause.run();
        return lost.get(Patience.LIMIT.toSeconds(), SECONDS);
    }

    @Test
    void each_loss_has_its_reason() throws Exception {
        LostLock broken = lost("broken", () -> client.say("RLOCK.BREAK broken"));
        assertEquals(LossReason.NOT_HELD, broken.getReason());
        assertEquals("broken: lost: the server says that it is not held: it was broken, deleted or forgotten", "" + broken);
        LostLock deleted = lost("deleted", () -> client.say("DEL deleted"));
        assertEquals(LossReason.NOT_HELD, deleted.getReason());
        LostLock overwritten = lost("overwritten", () -> client.say("SET overwritten value"));
        assertEquals(LossReason.OVERWRITTEN, overwritten.getReason());
        assertEquals("overwritten: lost: its name now stores something else ("
                + overwritten.getCause().orElseThrow().getMessage() + ")", "" + overwritten);
        client.say("DEL overwritten");
        LostLock ended = assertThrows(LockLostException.class, () -> locks.call(locks.getLock("ended"), () -> {
            locks.renew(locks.getLock("ended"), Duration.ofMillis(1));
            Patience.until("it has ended", () -> locks.remaining(locks.getLock("ended")).isZero());
            return null;
        })).getLost();
        assertEquals(LossReason.ENDED, ended.getReason());
        assertEquals("ended: lost: the lease has ended", "" + ended);
    }

    @Test
    void what_could_not_be_renewed_has_the_servers_refusal_as_its_cause() throws Exception {
        client.say("ACL SETUSER forgetful on >secret ~* &* +@all -rlock.renew");
        RedissonLocks forgetful = WrappedFleet.with(config -> config.useSingleServer()
                .setUsername("forgetful").setPassword("secret").setAddress(Node.shared().address()));
        RLock lock = forgetful.getLock("not-renewed");
        lock.lock();
        LostLock lost = forgetful.lost(lock).get(Patience.LIMIT.toSeconds(), SECONDS);
        assertEquals(LossReason.NOT_RENEWED, lost.getReason());
        String why = lost.getCause().orElseThrow().getMessage();
        assertTrue(why.startsWith("NOPERM"), why);
        assertEquals("not-renewed: lost: the lease could not be renewed: " + why, "" + lost);
        WrappedFleet.end(forgetful);
    }

    @Test
    void the_others_of_several_locks_are_unlocked_although_one_is_lost() {
        RLock all = locks.getMultiLock(locks.getLock("rest:1"), locks.getLock("rest:2"));
        all.lock();
        client.say("RLOCK.BREAK rest:1");
        assertThrows(IllegalMonitorStateException.class, all::unlock);
        assertEquals(0L, client.say("EXISTS rest:2"));
    }

    /** However near the end of the work the lock is lost. */
    @Test
    void no_thread_is_interrupted_once_the_work_has_ended() {
        try (Crew crew = new Crew()) {
            for (int i = 0; i < 12; i++) {
                RLock lock = locks.getLock("near:" + i);
                crew.start(() -> {
                    try (Native own = Node.shared().client()) {
                        for (int round = 0; round < 2; round++) {
                            endsNear(lock, own);
                        }
                    }
                });
            }
            crew.finish();
        }
    }

    private void endsNear(RLock lock, Native own) throws Exception {
        AtomicBoolean isOver = new AtomicBoolean();
        CompletableFuture<Void> reported = new CompletableFuture<>();
        own.say("DEL " + lock.getName());
        try {
            locks.call(lock, () -> {
                locks.lost(lock).thenRun(() -> reported.complete(null));
                takeAway(own, lock.getName());
                // The loss is noticed at the next renewal.
                long end = System.nanoTime()
                        + MILLISECONDS.toNanos(ThreadLocalRandom.current().nextLong(Fleet.WATCHDOG_MS / 2));
                while (System.nanoTime() < end && !Thread.currentThread().isInterrupted()) {
                    Thread.onSpinWait();
                    LockSupport.parkNanos(100_000);
                }
                isOver.set(true);
                return null;
            });
            throw new AssertionError("it was lost");
        } catch (LockLostException e) {
            assertTrue(isOver.get());
        }
        Patience.until("all losses are reported", () -> reported.isDone() || locks.remaining(lock).isZero());
        assertFalse(Thread.interrupted(), "nobody interrupts what comes after the work");
    }

    @Test
    void an_interrupt_by_another_is_kept_and_what_the_work_throws_is_thrown() throws Exception {
        RLock lock = locks.getLock("calls");
        assertEquals("result", locks.call(lock, () -> {
            Thread.currentThread().interrupt();
            return "result";
        }));
        assertTrue(Thread.interrupted());
        assertThrows(IOException.class, () -> locks.call(lock, () -> {
            throw new IOException();
        }));
        assertThrows(IllegalStateException.class, () -> locks.run("calls", () -> {
            assertTrue(lock.isHeldByCurrentThread());
            throw new IllegalStateException();
        }));
        assertFalse(lock.isLocked());
        client.say("RLOCK.ACQUIRE calls other 60000");
        assertThrows(LockBusyException.class, () -> locks.call(lock, Duration.ofMillis(50), () -> null));
        client.say("RLOCK.RELEASE calls other");
        assertEquals(1, locks.call(lock, Duration.ZERO, () -> 1));
    }

    /** No unlock reached the server that is gone, and nothing may renew the lock when the server is there again. */
    @Test
    void what_was_not_unlocked_when_the_work_ended_is_not_renewed() throws Exception {
        Node node = Node.start();
        RedissonLocks far = WrappedFleet.with(config -> config.setLockWatchdogTimeout(Fleet.LONG_MS).useSingleServer()
                .setAddress(node.address()).setTimeout(300).setRetryAttempts(0));
        RLock lock = far.getLock("gone");
        assertEquals("result", far.call(lock, () -> {
            node.stop();
            return "result";
        }));
        assertTrue(far.remaining(lock).isZero());
        WrappedFleet.end(far);
    }

    /** An observer is notified of waits and holds, too: RlockMetrics is one, and SpringSetupTest reads it. */
    @Test
    void an_observer_is_notified_of_losses_and_its_failure_changes_nothing() throws Exception {
        CompletableFuture<LostLock> reported = new CompletableFuture<>();
        locks.observe(new LockObserver() {
            @Override
            public void held(String name, Duration time) {
                throw new IllegalStateException(name);
            }

            @Override
            public void lost(LostLock lost) {
                reported.complete(lost);
            }
        });
        RLock lock = locks.getLock("observed");
        lock.lock();
        lock.unlock();
        lock.lock();
        takeAway(client, "observed");
        assertEquals("observed", reported.get(Patience.LIMIT.toSeconds(), SECONDS).getName());
    }
}
