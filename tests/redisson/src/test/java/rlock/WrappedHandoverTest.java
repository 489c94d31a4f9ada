package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.redisson.api.RLock;
import rlock.redisson.HeldLock;
import rlock.redisson.InMemoryLocks;
import rlock.redisson.LockBusyException;
import rlock.redisson.LockLostException;
import rlock.redisson.LossReason;
import rlock.redisson.LostLock;
import rlock.redisson.RedissonLocks;

/** What only Java has for holds that are handed on: clients/conformance tests the rest. */
class WrappedHandoverTest {
    private final RedissonLocks locks = WrappedFleet.on(Node.shared().address());

    @AutoClose
    private final Native client = Node.shared().client();

    @AfterEach
    void disconnect() {
        WrappedFleet.end(locks);
    }

    private HeldLock hold(String name) throws InterruptedException {
        return locks.hold(locks.getLock(name));
    }

    private static LossReason reason(CompletableFuture<LostLock> lost) throws Exception {
        return lost.get(Patience.LIMIT.toSeconds(), TimeUnit.SECONDS).getReason();
    }

    @Test
    void a_hold_that_is_detached_is_over() throws Exception {
        HeldLock held = hold("passed");
        CompletableFuture<LostLock> lost = held.lost();
        assertThrows(IllegalArgumentException.class, () -> held.detach(Duration.ZERO));
        String text = held.detach();
        Patience.until("no loss is reported any more", lost::isCancelled);
        assertTrue(held.remaining().isZero());
        held.close();
        assertThrows(IllegalMonitorStateException.class, held::unlock);
        assertThrows(IllegalMonitorStateException.class, held::detach);
        assertThrows(IllegalMonitorStateException.class, () -> held.call(() -> null));
        assertThrows(LockBusyException.class, () -> locks.hold(locks.getLock("passed"), Duration.ZERO));
        locks.adopt(text).unlock();
        assertEquals(0, client.number("EXISTS passed"));
    }

    /** The work is no longer protected then, but nothing is lost. */
    @Test
    void work_under_a_hold_may_hand_it_on_or_end_it() throws Exception {
        HeldLock held = hold("work");
        HeldLock adopted = locks.adopt(held.call(held::detach));
        adopted.call(() -> {
            adopted.unlock();
            return null;
        });
        assertEquals(0, client.number("EXISTS work"));
    }

    /** An acquire would be taken for a re-entry, since the holder of a thread has the same name each time. */
    @Test
    void the_thread_that_detached_a_hold_does_not_enter_it_again() throws Exception {
        RLock lock = locks.getLock("again");
        String text = locks.hold(lock).detach();
        assertFalse(lock.tryLock());
        HeldLock adopted = locks.adopt(text);
        assertFalse(lock.tryLock());
        adopted.unlock();
        assertTrue(lock.tryLock());
        lock.unlock();
    }

    /** Java's own ways to read numbers and names would take these texts. */
    @Test
    void a_text_that_is_almost_right_is_refused_and_not_repeated() {
        for (String text : List.of("rlock1/PLAIN/2000/0/-/secret/a", "rlock1/plain/+1/0/-/secret/a",
                "rlock1/plain/2000/0/-/secret/%2f", "rlock1/plain/2000/0/-/secret/%FF", "rlock1/plain/2000/0/-/secret/a+b")) {
            String why = assertThrows(IllegalArgumentException.class, () -> locks.adopt(text), text).getMessage();
            assertFalse(why.contains("secret"), why);
        }
    }

    @Test
    void what_another_client_has_acquired_twice_is_released_as_a_whole() {
        client.say("RLOCK.ACQUIRE foreign h 600000");
        client.say("RLOCK.ACQUIRE foreign h 600000");
        locks.adopt("rlock1/plain/600/0/-/h/foreign").unlock();
        assertEquals(0, client.number("EXISTS foreign"));
    }

    @Test
    void the_loss_of_what_was_adopted_is_reported_and_interrupts_the_work() throws Exception {
        HeldLock adopted = locks.adopt(hold("stolen").detach());
        CompletableFuture<LostLock> lost = adopted.lost();
        LockLostException error = assertThrows(LockLostException.class, () -> adopted.call(() -> {
            client.say("RLOCK.BREAK stolen");
            Thread.sleep(Patience.LIMIT.toMillis());
            return null;
        }));
        assertEquals(LossReason.NOT_HELD, error.getReason());
        assertEquals(LossReason.NOT_HELD, reason(lost));
        assertThrows(IllegalMonitorStateException.class, adopted::unlock);
    }

    @Test
    void what_one_client_adopts_twice_are_two_holds() throws Exception {
        String text = hold("twice").detach();
        HeldLock first = locks.adopt(text);
        CompletableFuture<LostLock> lost = first.lost();
        locks.adopt(locks.adopt(text).detach()).unlock();
        assertEquals(LossReason.NOT_HELD, reason(lost));
        assertThrows(IllegalMonitorStateException.class, first::unlock);
    }

    @Test
    void a_text_of_a_key_that_is_something_else_is_a_loss_and_names_it() throws Exception {
        RLock both = locks.getMultiLock(locks.getLock("late:1"), locks.getLock("late:2"));
        String text = locks.hold(both).detach();
        client.say("SET late:2 something");
        LostLock lost = assertThrows(LockLostException.class, () -> locks.adopt(text)).getLost();
        assertEquals(LossReason.OVERWRITTEN, lost.getReason());
        assertEquals("late:2", lost.getName());
    }

    @Test
    void the_close_of_a_hold_that_is_lost_says_so() throws Exception {
        HeldLock held = hold("gone");
        client.say("DEL gone");
        assertEquals(LossReason.NOT_HELD, assertThrows(LockLostException.class, held::close).getReason());
    }

    @Test
    void holds_in_memory_are_handed_on_as_well() throws Exception {
        InMemoryLocks memory = new InMemoryLocks();
        HeldLock held = memory.hold(memory.getFencedLock("a"));
        CompletableFuture<LostLock> lost = held.lost();
        String text = held.detach();
        assertTrue(lost.isCancelled());
        assertThrows(LockBusyException.class, () -> memory.hold(memory.getLock("a"), Duration.ofMillis(1)));
        HeldLock adopted = memory.adopt(text);
        assertEquals(held.getTokens(), adopted.getTokens());
        assertThrows(IllegalMonitorStateException.class, held::unlock);
        held.close();
        lost = adopted.lost();
        memory.lose("a");
        assertEquals(LossReason.NOT_HELD, reason(lost));
        assertThrows(LockLostException.class, adopted::detach);
        assertThrows(LockLostException.class, () -> memory.adopt(text));
        try (HeldLock permit = memory.adopt(memory.hold(memory.getPermits("p", 1)).detach())) {
            assertFalse(memory.getPermits("p", 1).tryAcquire());
        }
        assertTrue(memory.getPermits("p", 1).tryAcquire());
    }
}
