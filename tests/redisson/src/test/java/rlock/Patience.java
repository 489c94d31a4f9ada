package rlock;

import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.Semaphore;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/** Waiting for a condition instead of for a time. */
final class Patience {
    /** Far more than any condition needs, and far less than a lease that a test would have to sit out. */
    static final Duration LIMIT = Duration.ofSeconds(20);

    private Patience() {
    }

    static void until(String what, BooleanSupplier condition) {
        until(LIMIT, what, condition);
    }

    /** The same, for what takes longer. */
    static void until(Duration limit, String what, BooleanSupplier condition) {
        long deadline = System.nanoTime() + limit.toNanos();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("waited in vain until " + what);
            }
            // Not at once: the awaited work needs the processor, too.
            LockSupport.parkNanos(1_000_000);
        }
    }

    /**
     * Waits until a thread sleeps in Redisson's lock(), where only a message or the end of the lease wakes it. It must be
     * parked already: on its way there it would miss the message of a write unlock.
     */
    static void untilAsleep(Thread thread) {
        until("the Java thread sleeps in lock()", () -> {
            StackTraceElement[] stack = thread.getStackTrace();
            return stack.length > 0 && stack[0].getMethodName().equals("park")
                    && Arrays.stream(stack).anyMatch(frame -> frame.getClassName().equals(Semaphore.class.getName()));
        });
    }
}
