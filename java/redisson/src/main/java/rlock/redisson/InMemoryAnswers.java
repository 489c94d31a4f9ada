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
    private final Map<String, Answer> all = new ConcurrentHashMap<>();

    private static final class Answer {
        private final byte[] value;
        private final long keepNs;
        private final long storedAt = System.nanoTime();

        Answer(byte[] value, long keepNs) {
            this.value = value.clone();
            this.keepNs = keepNs;
        }

        boolean isOver() {
            return System.nanoTime() - storedAt >= keepNs;
        }
    }

    /** A call that may wait for work. */
    interface Once {
        byte[] call(Callable<byte[]> work) throws Exception;
    }

    /** @return null if there is none */
    private byte[] find(String name) {
        all.computeIfPresent(name, (same, known) -> known.isOver() ? null : known);
        Answer answer = all.get(name);
        return answer == null ? null : answer.value.clone();
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
                    all.put(name, new Answer(value, keepNs));
                }
                return value;
            });
        }
    }

    boolean forget(String name) {
        return find(name) != null && all.remove(name) != null;
    }

    /** In a thread of its own, which a cancellation interrupts. */
    static CompletableFuture<byte[]> async(Supplier<? extends CompletionStage<byte[]>> work, Once once) {
        CompletableFuture<byte[]> result = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                result.complete(once.call(() -> finished(work.get().toCompletableFuture())));
            } catch (Exception e) {
                result.completeExceptionally(Server.cause(e));
            }
        }, "rlock-once");
        thread.setDaemon(true);
        thread.start();
        result.whenComplete((value, error) -> {
            if (result.isCancelled()) {
                thread.interrupt();
            }
        });
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
