package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.List;
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
import org.redisson.client.RedisException;
import rlock.redisson.InMemoryLocks;
import rlock.redisson.Lead;
import rlock.redisson.RedissonLocks;

/** What only Java has for leads: clients/conformance tests the rest. */
class WrappedLeadTest {
    private final RedissonLocks locks = WrappedFleet.on(Node.shared().address());

    @AutoClose
    private final Native client = Node.shared().client();

    private final BlockingQueue<String> said = new LinkedBlockingQueue<>();

    @AfterEach
    void disconnect() {
        WrappedFleet.end(locks);
    }

    private void hears(String what) throws InterruptedException {
        assertEquals(what, said.poll(Patience.LIMIT.toSeconds(), TimeUnit.SECONDS));
    }

    private static Throwable failure(Lead lead) {
        return assertThrows(ExecutionException.class,
                () -> lead.end().get(Patience.LIMIT.toSeconds(), TimeUnit.SECONDS)).getCause();
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
    void close_returns_when_the_lock_is_released() throws Exception {
        Lead lead = locks.lead(locks.getLock("closed"), this::work);
        hears("began");
        lead.close();
        hears("ended");
        assertEquals(0, client.number("EXISTS closed"));
        assertNull(lead.end().get());
        lead.close();
    }

    @Test
    void the_work_may_close_its_own_lead() throws Exception {
        CompletableFuture<Lead> own = new CompletableFuture<>();
        Lead lead = locks.lead(locks.getLock("own"), () -> own.get().close());
        own.complete(lead);
        assertNull(lead.end().get(Patience.LIMIT.toSeconds(), TimeUnit.SECONDS));
        assertEquals(0, client.number("EXISTS own"));
    }

    /** Also if the error looks like one that is waited out. */
    @Test
    void the_error_of_the_work_ends_the_lead_and_releases_the_lock() {
        for (Exception error : List.of(new IOException(), new RedisException("of the work"))) {
            assertSame(error, failure(locks.lead(locks.getLock("failed"), () -> {
                throw error;
            })));
            assertEquals(0, client.number("EXISTS failed"));
        }
    }

    @Test
    void the_shutdown_of_redisson_ends_a_lead_that_waits() {
        client.say("RLOCK.ACQUIRE shut other 60000");
        CompletableFuture<Lead> waiting = new CompletableFuture<>();
        Waiter.inAQueue(() -> waiting.complete(locks.lead(locks.getLock("shut"), this::work)));
        WrappedFleet.end(locks);
        Throwable error = failure(waiting.join());
        assertTrue(error instanceof RedissonShutdownException, "" + error);
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
