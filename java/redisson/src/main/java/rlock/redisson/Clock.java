package rlock.redisson;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The time limits of one client. Nearly all of them are cancelled: each request and each hold has one.
 *
 * <p>So tasks that fall due at nearly the same time share one timer, and most limits wake no thread when they begin or
 * end. Redisson's own clock has a precision of a tenth of a second, which would report a loss too late.
 *
 * <p>The thread is the client's own and ends with it. The JDK's shared timer thread would keep the class loader of the
 * first application that used it, and each far timer its client.
 */
final class Clock {
    private static final Logger log = LoggerFactory.getLogger(RedissonLocks.class);

    private static final long PRECISION_MS = 4;

    /** A far timer may also be late by this part of its time. */
    private static final long PRECISION_PART = 512;

    /** No time here is longer than a century, so that sums with {@code System.nanoTime} do not overflow. */
    static final long FAR_MS = TimeUnit.DAYS.toMillis(36_500);

    /** The tasks by the System.nanoTime at which they fall due. */
    private final ConcurrentHashMap<Long, Set<Runnable>> slots = new ConcurrentHashMap<>();

    /** Started by the first timer. */
    private final ScheduledThreadPoolExecutor executor =
            new ScheduledThreadPoolExecutor(1, Clock::thread, new ThreadPoolExecutor.DiscardPolicy());

    Clock() {
        executor.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
    }

    private static Thread thread(Runnable run) {
        Thread thread = new Thread(null, run, "rlock-clock", 0, false);
        thread.setDaemon(true);
        thread.setContextClassLoader(Clock.class.getClassLoader());
        return thread;
    }

    /** A task that is due later. */
    interface Timer {
        void cancel();
    }

    /** A length of time, a century at most. */
    static long ns(long ms) {
        return TimeUnit.MILLISECONDS.toNanos(Math.min(ms, FAR_MS));
    }

    /** @param task must not block; runs at once if the clock has ended */
    Timer after(long ms, Runnable task) {
        long now = System.nanoTime();
        long inMs = Math.min(ms, FAR_MS);
        long slice = TimeUnit.MILLISECONDS.toNanos(Long.highestOneBit(Math.max(PRECISION_MS, inMs / PRECISION_PART)));
        long due = Math.floorDiv(now + ns(inMs) + slice - 1, slice) * slice;
        // A set holds the same task only once, so each registration is an object of its own.
        Runnable own = task::run;
        Set<Runnable> slot = slots.compute(due, (same, known) -> {
            Set<Runnable> all = known == null ? open(due, due - now) : known;
            all.add(own);
            return all;
        });
        if (executor.isShutdown()) {
            end();
        }
        return () -> slot.remove(own);
    }

    private Set<Runnable> open(long due, long inNs) {
        executor.schedule(() -> fire(due), inNs, TimeUnit.NANOSECONDS);
        return ConcurrentHashMap.newKeySet();
    }

    private void fire(long due) {
        Set<Runnable> all = slots.remove(due);
        if (all == null) {
            return;
        }
        for (Runnable task : all) {
            if (all.remove(task)) {
                run(task);
            }
        }
    }

    /** Runs all tasks now. They see that their client has ended. */
    void end() {
        executor.shutdown();
        slots.keySet().forEach(this::fire);
    }

    private static void run(Runnable task) {
        try {
            task.run();
        } catch (RuntimeException e) {
            log.error("A time limit failed", e);
        }
    }
}
