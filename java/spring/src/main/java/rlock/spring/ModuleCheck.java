package rlock.spring;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import rlock.redisson.RedissonLocks;

/**
 * Asks each master for the module, for a health check. Redisson repeats a request to a server that does not answer, for
 * many seconds. So a thread of its own asks, one at a time, and callers wait for it only for a short time.
 */
final class ModuleCheck {
    private static final int LIMIT_S = 2;

    private final List<RedissonLocks> all;
    private CompletableFuture<Void> asked = CompletableFuture.completedFuture(null);

    ModuleCheck(List<RedissonLocks> all) {
        this.all = List.copyOf(all);
    }

    boolean isNative() {
        return all.stream().allMatch(RedissonLocks::isNative);
    }

    void run() throws Exception {
        try {
            begun().get(LIMIT_S, TimeUnit.SECONDS);
        } catch (TimeoutException e) {
            throw new IllegalStateException("a server has not answered for " + LIMIT_S + " s");
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        }
    }

    private synchronized CompletableFuture<Void> begun() {
        if (asked.isDone()) {
            asked = CompletableFuture.runAsync(
                    () -> all.stream().filter(RedissonLocks::isNative).forEach(RedissonLocks::check), ModuleCheck::start);
        }
        return asked;
    }

    private static void start(Runnable work) {
        Thread thread = new Thread(work, "rlock-health");
        thread.setDaemon(true);
        thread.start();
    }
}
