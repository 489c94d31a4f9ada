package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.redisson.RedissonShutdownException;
import org.redisson.api.RLock;
import org.redisson.client.RedisException;
import rlock.redisson.InMemoryLocks;
import rlock.redisson.Lead;
import rlock.redisson.RedissonLocks;

/** Work under a lock, turn by turn. */
class WrappedLeadTest {
    private final Node node = Node.start();
    private final RedissonLocks locks = WrappedFleet.with(config ->
            config.useSingleServer().setAddress(node.address()).setRetryAttempts(0));

    @AutoClose
    private final Native client = node.client();

    private final BlockingQueue<String> said = new LinkedBlockingQueue<>();

    @AfterEach
    void stop() {
        WrappedFleet.end(locks);
        node.stop();
    }

    private void hears(String what) throws InterruptedException {
        assertEquals(what, said.poll(Patience.LIMIT.toSeconds(), TimeUnit.SECONDS));
    }

    /** Works until it is interrupted. */
    private void work() throws InterruptedException {
        said.add("began");
        try {
            new CountDownLatch(1).await();
        } finally {
            said.add("ended");
        }
    }

    @Test
    void a_lead_that_is_closed_stops_its_work_and_has_released_its_lock() throws Exception {
        Lead lead = locks.lead(locks.getLock("closed"), this::work);
        hears("began");
        lead.close();
        hears("ended");
        assertEquals(0, client.number("EXISTS closed"));
        assertNull(lead.end().get());
        lead.close();
    }

    @Test
    void a_lead_that_is_closed_while_it_waits_leaves_the_queue() {
        client.say("RLOCK.ACQUIRE queue other 60000");
        CompletableFuture<Lead> lead = new CompletableFuture<>();
        Waiter.inAQueue(() -> lead.complete(locks.lead(locks.getLock("queue"), this::work)));
        lead.join().close();
        Patience.until("nobody waits", () -> Node.tickets() == 0);
        assertTrue(said.isEmpty());
    }

    /** The others come first: each turn begins at the end of the queue. */
    @Test
    void a_turn_that_ends_lets_the_others_lead() throws Exception {
        RLock lock = locks.getLock("turns");
        BlockingQueue<String> turns = new LinkedBlockingQueue<>();
        CountDownLatch areBoth = new CountDownLatch(1);
        try (Lead a = locks.lead(lock, () -> turn(turns, "a", areBoth))) {
            Patience.until("it leads", () -> turns.size() == 1);
            try (Lead b = locks.lead(lock, () -> turn(turns, "b", areBoth))) {
                Patience.until("the other waits", () -> Node.tickets() == 1);
                areBoth.countDown();
                Patience.until("turns", () -> turns.size() > 10);
            }
        }
        String[] order = turns.toArray(String[]::new);
        for (int i = 0; i < 10; i++) {
            assertEquals(i % 2 == 0 ? "a" : "b", order[i]);
        }
    }

    /** The next turn of one begins when the other waits. */
    private static void turn(BlockingQueue<String> turns, String name, CountDownLatch areBoth) throws InterruptedException {
        turns.add(name);
        areBoth.await();
        Patience.until("the other waits", () -> Node.tickets() > 0 || turns.size() > 10);
    }

    @Test
    void the_error_of_the_work_ends_the_lead_and_releases_the_lock() throws Exception {
        IOException error = new IOException();
        Lead lead = locks.lead(locks.getLock("failed"), () -> {
            throw error;
        });
        ExecutionException ended = assertThrows(ExecutionException.class,
                () -> lead.end().get(Patience.LIMIT.toSeconds(), TimeUnit.SECONDS));
        assertSame(error, ended.getCause());
        assertEquals(0, client.number("EXISTS failed"));
        RedisException own = new RedisException("of the work");
        Lead other = locks.lead(locks.getLock("failed"), () -> {
            throw own;
        });
        assertSame(own, assertThrows(ExecutionException.class,
                () -> other.end().get(Patience.LIMIT.toSeconds(), TimeUnit.SECONDS)).getCause());
    }

    @Test
    void a_lock_that_is_lost_stops_the_work_and_is_waited_for_again() throws Exception {
        try (Lead lead = locks.lead(locks.getLock("lost"), this::work)) {
            for (int i = 0; i < 2; i++) {
                hears("began");
                client.say("RLOCK.BREAK lost");
                hears("ended");
            }
            hears("began");
            assertFalse(lead.end().isDone());
        }
    }

    @Test
    void a_server_that_does_not_answer_is_waited_out() throws Exception {
        client.say("RLOCK.ACQUIRE frozen other 60000");
        CompletableFuture<Lead> begun = new CompletableFuture<>();
        Waiter.inAQueue(() -> begun.complete(locks.lead(locks.getLock("frozen"), this::work)));
        node.freeze();
        Thread thread = Thread.getAllStackTraces().keySet().stream()
                .filter(one -> one.getName().equals("rlock-lead frozen")).findFirst().orElseThrow();
        Patience.until("it pauses", () -> thread.getState() == Thread.State.TIMED_WAITING);
        node.thaw();
        client.say("RLOCK.BREAK frozen");
        hears("began");
        begun.join().close();
    }

    @Test
    void an_error_that_does_not_go_away_ends_the_lead() {
        client.say("SET text something");
        Lead lead = locks.lead(locks.getLock("text"), this::work);
        Throwable error = assertThrows(ExecutionException.class,
                () -> lead.end().get(Patience.LIMIT.toSeconds(), TimeUnit.SECONDS)).getCause();
        assertTrue(error.getMessage().startsWith("WRONGTYPE"), error.getMessage());
        client.say("RLOCK.ACQUIRE shut other 60000");
        CompletableFuture<Lead> waiting = new CompletableFuture<>();
        Waiter.inAQueue(() -> waiting.complete(locks.lead(locks.getLock("shut"), this::work)));
        WrappedFleet.end(locks);
        error = assertThrows(ExecutionException.class,
                () -> waiting.join().end().get(Patience.LIMIT.toSeconds(), TimeUnit.SECONDS)).getCause();
        assertTrue(error instanceof RedissonShutdownException, "" + error);
    }

    @Test
    void the_work_may_close_its_own_lead() throws Exception {
        CompletableFuture<Lead> own = new CompletableFuture<>();
        Lead lead = locks.lead(locks.getLock("own"), () -> own.get().close());
        own.complete(lead);
        assertNull(lead.end().get(Patience.LIMIT.toSeconds(), TimeUnit.SECONDS));
        assertEquals(0, client.number("EXISTS own"));
    }

    @Test
    void locks_in_memory_are_led_as_well() throws Exception {
        InMemoryLocks memory = new InMemoryLocks();
        try (Lead lead = memory.lead(memory.getLock("a"), this::work)) {
            hears("began");
            memory.lose("a");
            hears("ended");
            hears("began");
        }
        hears("ended");
        assertTrue(memory.getLock("a").tryLock());
    }
}
