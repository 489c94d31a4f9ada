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
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import rlock.redisson.InMemoryLocks;
import rlock.redisson.LockBusyException;
import rlock.redisson.LockLostException;
import rlock.redisson.LossReason;
import rlock.redisson.RedissonLocks;

/** What only Java has for answers: clients/conformance tests the rest. */
class WrappedOnceTest {
    private static final Duration KEEP = Duration.ofMinutes(10);

    private final RedissonLocks locks = WrappedFleet.on(Node.shared().address());

    @AutoClose
    private final Native client = Node.shared().client();

    @AfterEach
    void disconnect() {
        WrappedFleet.end(locks);
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

    @Test
    void a_value_is_any_bytes() throws Exception {
        byte[] value = {0, -1, '\r', '\n', 127, -128};
        assertArrayEquals(value, locks.once("bytes", KEEP, () -> value));
        assertArrayEquals(value, locks.once("bytes", KEEP, () -> bytes(noWork())));
        assertArrayEquals(value, got(locks.onceAsync("bytes", KEEP, () -> null)));
        assertEquals("WAITING", locks.onceText("word", KEEP, () -> "WAITING"));
        assertEquals("WAITING", locks.onceText("word", KEEP, Duration.ZERO, WrappedOnceTest::noWork));
        assertTrue(locks.forget("word"));
        assertFalse(locks.forget("word"));
        assertThrows(IllegalArgumentException.class, () -> locks.onceText("a", Duration.ofNanos(999_999), () -> ""));
    }

    @Test
    void what_a_stage_fails_with_is_its_callers_alone() throws Exception {
        IOException error = new IOException();
        CompletableFuture<byte[]> work = new CompletableFuture<>();
        CompletableFuture<byte[]> first = begun("fails", work);
        CompletableFuture<byte[]> second = locks.onceAsync("fails", KEEP, () -> CompletableFuture.completedFuture(bytes("own")));
        work.completeExceptionally(error);
        assertSame(error, failure(first));
        assertArrayEquals(bytes("own"), got(second));
        assertThrows(NullPointerException.class, () -> locks.once("null", KEEP, () -> null));
        assertTrue(failure(locks.onceAsync("null", KEEP, () -> null)) instanceof NullPointerException);
        assertTrue(failure(locks.onceAsync("null", KEEP, () -> CompletableFuture.completedFuture(null)))
                instanceof NullPointerException);
        assertTrue(failure(locks.onceAsync("null", KEEP, () -> CompletableFuture.completedFuture(bytes("x".repeat(70_000)))))
                .getMessage().startsWith("ERR value"));
        assertEquals("value", locks.onceText("null", KEEP, () -> "value"));
    }

    @Test
    void a_lock_that_is_lost_cancels_the_stage() throws Exception {
        CompletableFuture<byte[]> work = new CompletableFuture<>();
        CompletableFuture<byte[]> result = begun("lost", work);
        client.say("RLOCK.BREAK lost");
        assertEquals(LossReason.NOT_HELD, ((LockLostException) failure(result)).getReason());
        assertTrue(work.isCancelled());
        CompletableFuture<byte[]> late = new CompletableFuture<>();
        result = begun("lost", late);
        client.say("RLOCK.BREAK lost");
        late.complete(bytes("late"));
        assertEquals(LossReason.NOT_HELD, ((LockLostException) failure(result)).getReason());
        assertEquals(0, client.number("EXISTS rlock_answer:{lost}"));
    }

    /** The cancelled caller has sent the request that the others share. */
    @Test
    void a_stage_that_is_cancelled_leaves_the_others_their_wait() throws Exception {
        client.say("RLOCK.ONCE wait other 60000");
        CompletableFuture<byte[]> first = locks.onceAsync("wait", KEEP, () -> null);
        Patience.until("it waits", () -> Node.tickets() == 1);
        CompletableFuture<byte[]> limited = locks.onceAsync("wait", KEEP, Duration.ofMillis(50), () -> null);
        CompletableFuture<byte[]> second = locks.onceAsync("wait", KEEP, () -> null);
        assertTrue(failure(limited) instanceof LockBusyException);
        first.cancel(true);
        Patience.until("the second waits", () -> Node.tickets() == 1);
        client.say("RLOCK.ANSWER wait other value KEEP 600000");
        assertArrayEquals(bytes("value"), got(second));
    }

    @Test
    void a_leader_that_cancels_its_stage_releases_the_lock_for_the_next() throws Exception {
        CompletableFuture<byte[]> work = new CompletableFuture<>();
        CompletableFuture<byte[]> first = begun("leader", work);
        CompletableFuture<byte[]> second =
                locks.onceAsync("leader", KEEP, () -> CompletableFuture.completedFuture(bytes("second")));
        first.cancel(true);
        assertArrayEquals(bytes("second"), got(second));
        assertTrue(work.isCancelled());
    }

    @Test
    void answers_in_memory_are_kept_as_well() throws Exception {
        InMemoryLocks memory = new InMemoryLocks();
        CompletableFuture<byte[]> work = new CompletableFuture<>();
        CompletableFuture<byte[]> first = memory.onceAsync("a", KEEP, () -> work);
        Patience.until("it works", () -> memory.getLock("a").isLocked());
        CompletableFuture<byte[]> second =
                memory.onceAsync("a", KEEP, () -> CompletableFuture.completedFuture(bytes("second")));
        assertThrows(LockBusyException.class, () -> memory.onceText("a", KEEP, Duration.ZERO, WrappedOnceTest::noWork));
        work.completeExceptionally(new IOException());
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
