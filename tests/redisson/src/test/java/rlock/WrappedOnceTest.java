package rlock;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.redisson.client.RedisException;
import rlock.redisson.InMemoryLocks;
import rlock.redisson.LockBusyException;
import rlock.redisson.LockLostException;
import rlock.redisson.LossReason;
import rlock.redisson.RedissonLocks;

/** Of all callers with one key, one works, and all get its value. */
class WrappedOnceTest {
    private static final Duration KEEP = Duration.ofMinutes(10);

    private final Node node = Node.start();
    private final RedissonLocks locks = WrappedFleet.with(config ->
            config.useSingleServer().setAddress(node.address()).setRetryAttempts(0));

    @AutoClose
    private final Native client = node.client();

    @AfterEach
    void stop() {
        WrappedFleet.end(locks);
        node.stop();
    }

    private static <T> T got(CompletableFuture<T> future) throws Exception {
        return future.get(Patience.LIMIT.toSeconds(), TimeUnit.SECONDS);
    }

    private static Throwable failure(CompletableFuture<?> future) {
        return assertThrows(ExecutionException.class, () -> got(future)).getCause();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** A caller in a thread of its own. */
    private static CompletableFuture<String> caller(RedissonLocks locks, String key, Work work) {
        CompletableFuture<String> result = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                result.complete(locks.onceText(key, KEEP, work::run));
            } catch (Exception e) {
                result.completeExceptionally(e);
            }
        });
        thread.setDaemon(true);
        thread.start();
        return result;
    }

    private interface Work {
        String run() throws Exception;
    }

    private static String noWork() {
        throw new AssertionError("another caller has worked");
    }

    /** A caller that leads. */
    private CompletableFuture<byte[]> begun(String key, CompletableFuture<byte[]> work) throws Exception {
        CompletableFuture<Void> hasBegun = new CompletableFuture<>();
        CompletableFuture<byte[]> result = locks.onceAsync(key, KEEP, () -> {
            hasBegun.complete(null);
            return work;
        });
        got(hasBegun);
        return result;
    }

    private void untilLed(String key) {
        Patience.until("the work runs", () -> client.number("EXISTS " + key) == 1);
    }

    @Test
    void a_value_is_any_bytes_and_is_kept_for_so_long() throws Exception {
        byte[] value = new byte[256];
        for (int i = 0; i < value.length; i++) {
            value[i] = (byte) i;
        }
        assertArrayEquals(value, locks.once("bytes", Duration.ofMinutes(1), () -> value));
        assertArrayEquals(value, locks.once("bytes", Duration.ofMinutes(1), () -> bytes(noWork())));
        assertArrayEquals(value, got(locks.onceAsync("bytes", Duration.ofMinutes(1), () -> null)));
        assertEquals("WAITING", locks.onceText("word", KEEP, () -> "WAITING"));
        assertEquals("WAITING", locks.onceText("word", KEEP, WrappedOnceTest::noWork));
        assertEquals("", locks.onceText("empty{x}", KEEP, () -> ""));
        assertEquals("", locks.onceText("empty{x}", KEEP, Duration.ZERO, WrappedOnceTest::noWork));
        long ttl = client.number("PTTL rlock_answer:{bytes}");
        assertTrue(ttl > 50_000 && ttl <= 60_000, "" + ttl);
        assertEquals(0, client.number("EXISTS bytes"));
        assertTrue(locks.forget("empty{x}"));
        assertFalse(locks.forget("empty{x}"));
        assertEquals("again", locks.onceText("empty{x}", KEEP, () -> "again"));
    }

    @Test
    void what_makes_no_sense_is_refused_before_anything_is_sent() {
        long calls = client.calls("rlock.once");
        assertThrows(IllegalArgumentException.class, () -> locks.onceText("", KEEP, () -> ""));
        assertThrows(IllegalArgumentException.class, () -> locks.onceText("a", Duration.ZERO, () -> ""));
        assertThrows(IllegalArgumentException.class, () -> locks.onceText("a", Duration.ofNanos(999_999), () -> ""));
        assertThrows(IllegalArgumentException.class, () -> locks.onceText("a", KEEP, Duration.ofMillis(-1), () -> ""));
        assertEquals(calls, client.calls("rlock.once"));
    }

    @Test
    void a_hundred_threads_share_one_request_and_one_value() throws Exception {
        client.say("RLOCK.ONCE crowd other 60000");
        long calls = client.calls("rlock.once");
        AtomicInteger works = new AtomicInteger();
        List<CompletableFuture<String>> callers = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            callers.add(caller(locks, "crowd", () -> "" + works.incrementAndGet()));
        }
        Patience.until("one waits", () -> Node.tickets() == 1);
        // What a caller does not share is sent at once.
        assertEquals("free", locks.onceText("beside", KEEP, () -> "free"));
        long shared = client.calls("rlock.once") - calls - 1;
        client.say("RLOCK.ANSWER crowd other value KEEP 600000");
        for (CompletableFuture<String> caller : callers) {
            assertEquals("value", got(caller));
        }
        assertEquals(0, works.get());
        assertTrue(shared <= 2, "tried, then waited for: " + shared);
        locks.forget("crowd");
        CountDownLatch mayEnd = new CountDownLatch(1);
        callers.clear();
        for (int i = 0; i < 100; i++) {
            callers.add(caller(locks, "crowd", () -> {
                mayEnd.await();
                return "" + works.incrementAndGet();
            }));
        }
        untilLed("crowd");
        mayEnd.countDown();
        for (CompletableFuture<String> caller : callers) {
            assertEquals("1", got(caller));
        }
    }

    /** And no other caller gets this one's. */
    @Test
    void the_error_of_the_work_is_its_callers_alone() throws Exception {
        IOException error = new IOException();
        CountDownLatch mayFail = new CountDownLatch(1);
        CompletableFuture<String> first = caller(locks, "fails", () -> {
            mayFail.await();
            throw error;
        });
        untilLed("fails");
        CompletableFuture<String> second = caller(locks, "fails", () -> "second");
        CompletableFuture<byte[]> third = locks.onceAsync("fails", KEEP, () -> CompletableFuture.completedFuture(bytes("third")));
        mayFail.countDown();
        assertSame(error, failure(first));
        String value = got(second);
        assertTrue(List.of("second", "third").contains(value), value);
        assertArrayEquals(bytes(value), got(third));
        assertThrows(NullPointerException.class, () -> locks.once("null", KEEP, () -> null));
        assertTrue(failure(locks.onceAsync("null", KEEP, () -> null)) instanceof NullPointerException);
        assertTrue(failure(locks.onceAsync("null", KEEP, () -> CompletableFuture.completedFuture(null)))
                instanceof NullPointerException);
        assertSame(error, failure(locks.onceAsync("null", KEEP, () -> CompletableFuture.failedFuture(error))));
        assertEquals(0, client.number("EXISTS null rlock_answer:{null}"));
    }

    @Test
    void a_lock_that_is_lost_stops_the_work_and_stores_nothing() throws Exception {
        LockLostException lost = assertThrows(LockLostException.class, () -> locks.onceText("lost", KEEP, () -> {
            client.say("RLOCK.BREAK lost");
            Thread.sleep(Patience.LIMIT.toMillis());
            return "late";
        }));
        assertEquals(LossReason.NOT_HELD, lost.getReason());
        lost = assertThrows(LockLostException.class, () -> locks.onceText("lost", KEEP, () -> {
            client.say("RLOCK.BREAK lost");
            client.say("RLOCK.ONCE lost other 60000");
            return "late";
        }));
        assertEquals(LossReason.NOT_HELD, lost.getReason());
        client.say("RLOCK.BREAK lost");
        CompletableFuture<byte[]> work = new CompletableFuture<>();
        CompletableFuture<byte[]> result = begun("lost", work);
        client.say("RLOCK.BREAK lost");
        assertEquals(LossReason.NOT_HELD, ((LockLostException) failure(result)).getReason());
        assertTrue(work.isCancelled());
        assertEquals(0, client.number("EXISTS rlock_answer:{lost}"));
    }

    @Test
    void a_caller_that_gives_up_leaves_the_others_their_wait() throws Exception {
        client.say("RLOCK.ONCE wait other 60000");
        assertThrows(LockBusyException.class, () -> locks.onceText("wait", KEEP, Duration.ZERO, WrappedOnceTest::noWork));
        assertThrows(LockBusyException.class,
                () -> locks.onceText("wait", KEEP, Duration.ofMillis(50), WrappedOnceTest::noWork));
        CompletableFuture<byte[]> first = locks.onceAsync("wait", KEEP, () -> null);
        Patience.until("it waits", () -> Node.tickets() == 1);
        CompletableFuture<byte[]> limited = locks.onceAsync("wait", KEEP, Duration.ofMillis(50), () -> null);
        CompletableFuture<byte[]> second = locks.onceAsync("wait", KEEP, () -> null);
        assertTrue(failure(limited) instanceof LockBusyException);
        first.cancel(true);
        Thread caller = new Thread(() -> assertThrows(InterruptedException.class,
                () -> locks.onceText("wait", KEEP, WrappedOnceTest::noWork)));
        caller.start();
        caller.interrupt();
        caller.join(Patience.LIMIT.toMillis());
        assertFalse(caller.isAlive());
        Patience.until("the second waits", () -> Node.tickets() == 1);
        client.say("RLOCK.ANSWER wait other value KEEP 600000");
        assertArrayEquals(bytes("value"), got(second));
    }

    @Test
    void a_leader_that_gives_up_releases_the_lock_for_the_next() throws Exception {
        CompletableFuture<byte[]> work = new CompletableFuture<>();
        CompletableFuture<byte[]> first = begun("leader", work);
        CompletableFuture<String> second = caller(locks, "leader", () -> "second");
        first.cancel(true);
        assertTrue(work.isCancelled());
        assertEquals("second", got(second));
        assertThrows(CancellationException.class, first::join);
        locks.forget("leader");
        CompletableFuture<Thread> working = new CompletableFuture<>();
        CompletableFuture<String> third = caller(locks, "leader", () -> {
            working.complete(Thread.currentThread());
            new CountDownLatch(1).await();
            return "never";
        });
        got(working).interrupt();
        assertTrue(failure(third) instanceof InterruptedException);
        assertEquals("next", locks.onceText("leader", KEEP, () -> "next"));
    }

    /** The answer is sent again, and the second reply may be that nothing is held any more. */
    @Test
    void an_answer_whose_reply_is_late_is_stored_once() throws Exception {
        RedissonLocks patient = WrappedFleet.with(config -> config.setLockWatchdogTimeout(Fleet.LONG_MS)
                .useSingleServer().setAddress(node.address()).setRetryAttempts(0));
        CompletableFuture<String> first = caller(patient, "doubt", () -> {
            client.say("CLIENT PAUSE 60000 WRITE");
            return "value";
        });
        try (Native observer = node.client()) {
            Patience.until("the answer is sent again",
                    () -> ("" + observer.say("CLIENT LIST")).split("cmd=rlock.answer").length > 2);
            observer.say("CLIENT UNPAUSE");
        }
        assertEquals("value", got(first));
        assertEquals("value", patient.onceText("doubt", KEEP, () -> "another"));
        assertEquals(0, client.number("EXISTS doubt"));
        WrappedFleet.end(patient);
    }

    @Test
    void a_value_in_doubt_is_its_callers_alone() throws Exception {
        CountDownLatch mayEnd = new CountDownLatch(1);
        CompletableFuture<String> first = caller(locks, "gone", () -> {
            mayEnd.await();
            node.freeze();
            return "value";
        });
        untilLed("gone");
        CompletableFuture<String> second = caller(locks, "gone", () -> "own");
        mayEnd.countDown();
        assertEquals("value", got(first));
        node.thaw();
        String own = got(second);
        assertTrue(List.of("own", "value").contains(own), own);
    }

    @Test
    void an_answer_that_the_server_refuses_is_an_error_and_the_lock_is_free() throws Exception {
        String tooLong = "x".repeat(70_000);
        RedisException refused = assertThrows(RedisException.class, () -> locks.onceText("long", KEEP, () -> tooLong));
        assertTrue(refused.getMessage().startsWith("ERR value"), refused.getMessage());
        Patience.until("the lock is free", () -> client.number("EXISTS long") == 0);
        assertTrue(failure(locks.onceAsync("long", KEEP, () -> CompletableFuture.completedFuture(bytes(tooLong))))
                .getMessage().startsWith("ERR value"));
        client.say("RLOCK.RACQUIRE other-kind other 60000");
        assertTrue(assertThrows(RedisException.class, () -> locks.onceText("other-kind", KEEP, WrappedOnceTest::noWork))
                .getMessage().startsWith("WRONGKIND"));
    }

    /** So a long work keeps its lead. */
    @Test
    void the_lock_is_renewed_while_the_work_runs() throws Exception {
        assertEquals("value", locks.onceText("long", KEEP, () -> {
            long end = client.number("PEXPIRETIME long");
            Patience.until("it is renewed", () -> client.number("PEXPIRETIME long") > end);
            return "value";
        }));
    }

    @Test
    void answers_in_memory_are_kept_as_well() throws Exception {
        InMemoryLocks memory = new InMemoryLocks();
        CountDownLatch mayEnd = new CountDownLatch(1);
        CompletableFuture<String> first = caller(memory, "a", () -> {
            mayEnd.await();
            throw new IOException();
        });
        Patience.until("it works", () -> memory.getLock("a").isLocked());
        CompletableFuture<byte[]> second =
                memory.onceAsync("a", KEEP, () -> CompletableFuture.completedFuture(bytes("second")));
        assertThrows(LockBusyException.class, () -> memory.onceText("a", KEEP, Duration.ZERO, WrappedOnceTest::noWork));
        mayEnd.countDown();
        assertTrue(failure(first) instanceof IOException);
        assertArrayEquals(bytes("second"), got(second));
        assertEquals("second", memory.onceText("a", KEEP, WrappedOnceTest::noWork));
        assertTrue(memory.forget("a"));
        assertThrows(LockLostException.class, () -> memory.onceText("a", KEEP, () -> {
            memory.lose("a");
            return "late";
        }));
        assertEquals("short", memory.onceText("a", Duration.ofMillis(1), () -> "short"));
        Patience.until("it expires", () -> !memory.forget("a"));
    }
}
