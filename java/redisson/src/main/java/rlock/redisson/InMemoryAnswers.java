package rlock.redisson;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.function.Supplier;

/** The answers of {@link InMemoryLocks}. Each caller looks for one again when it has the lock. */
final class InMemoryAnswers {
    /** Each with the time at which it expires. */
    private final Map<String, Map.Entry<Long, byte[]>> all = new ConcurrentHashMap<>();

    /** @return null if there is none */
    private byte[] find(String name) {
        Map.Entry<Long, byte[]> answer = all.computeIfPresent(
                name, (same, known) -> System.nanoTime() - known.getKey() >= 0 ? null : known);
        return answer == null ? null : answer.getValue().clone();
    }

    byte[] once(String name, Duration keep, Callable<HeldLock> hold, Callable<byte[]> work) throws Exception {
        long keepNs = Clock.ns(NativeLock.keepMs(keep));
        byte[] found = find(name);
        if (found != null) {
            return found;
        }
        try (HeldLock held = hold.call()) {
            byte[] meanwhile = find(name);
            return meanwhile != null ? meanwhile : held.call(() -> {
                byte[] value = work.call();
                if (!held.remaining().isZero()) {
                    all.put(name, Map.entry(System.nanoTime() + keepNs, value.clone()));
                }
                return value;
            });
        }
    }

    boolean forget(String name) {
        return find(name) != null && all.remove(name) != null;
    }

    /** In a thread of its own, which a cancellation interrupts. */
    CompletableFuture<byte[]> async(
            String name, Duration keep, Callable<HeldLock> hold, Supplier<? extends CompletionStage<byte[]>> work) {
        CompletableFuture<byte[]> result = new CompletableFuture<>();
        Thread thread = InMemoryLock.inAThread("rlock-once",
                () -> once(name, keep, hold, () -> finished(work.get().toCompletableFuture())), result);
        result.whenComplete((value, error) -> thread.interrupt());
        return result;
    }

    private static byte[] finished(CompletableFuture<byte[]> stage) throws InterruptedException, ExecutionException {
        try {
            return stage.get();
        } catch (InterruptedException e) {
            stage.cancel(true);
            throw e;
        }
    }
}
