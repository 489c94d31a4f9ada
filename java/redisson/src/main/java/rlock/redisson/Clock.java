package rlock.redisson;

import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What is to happen later, unless it is cancelled before, as nearly all of it is: each request and each hold has such a
 * time limit.
 *
 * <p>So what falls due at nearly the same time shares one timer, and most limits wake no thread when they begin or end.
 * Redisson's own clock goes by a tenth of a second: a loss that is told so much late is told too late.
 */
final class Clock {
    private static final Logger log = LoggerFactory.getLogger(RedissonLocks.class);

    private static final long PRECISION_MS = 4;

    /** What is far away may be late by this part of the time, too. */
    private static final long PRECISION_PART = 512;

    /** Nobody waits longer than a century. */
    private static final long FAR_MS = TimeUnit.DAYS.toMillis(36_500);

    /** By the System.nanoTime at which they fall due. */
    private static final ConcurrentHashMap<Long, Set<Runnable>> slots = new ConcurrentHashMap<>();

    private Clock() {
    }

    /** Something that is to happen later. */
    interface Timer {
        void cancel();
    }

    /** @param task must not block */
    static Timer after(long ms, Runnable task) {
        long now = System.nanoTime();
        long inMs = Math.min(ms, FAR_MS);
        long slice = TimeUnit.MILLISECONDS.toNanos(Long.highestOneBit(Math.max(PRECISION_MS, inMs / PRECISION_PART)));
        long due = Math.floorDiv(now + TimeUnit.MILLISECONDS.toNanos(inMs) + slice - 1, slice) * slice;
        // Each is one of its own, even of the same task.
        Runnable own = task::run;
        Set<Runnable> slot = slots.compute(due, (same, known) -> {
            Set<Runnable> all = known == null ? open(due, due - now) : known;
            all.add(own);
            return all;
        });
        return () -> slot.remove(own);
    }

    private static Set<Runnable> open(long due, long inNs) {
        CompletableFuture.delayedExecutor(inNs, TimeUnit.NANOSECONDS, Runnable::run).execute(() -> {
            Set<Runnable> all = slots.remove(due);
            for (Runnable task : all) {
                if (all.remove(task)) {
                    run(task);
                }
            }
        });
        return ConcurrentHashMap.newKeySet();
    }

    private static void run(Runnable task) {
        try {
            task.run();
        } catch (RuntimeException e) {
            log.error("A time limit failed", e);
        }
    }
}
