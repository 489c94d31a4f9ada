package rlock;

import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.Semaphore;
import java.util.function.BooleanSupplier;

/** Waiting for a condition instead of for a time. */
final class Patience {
    /** Far more than any condition needs, and far less than a lease that nobody should have to sit out. */
    static final Duration LIMIT = Duration.ofSeconds(20);

    private Patience() {
    }

    static void until(String what, BooleanSupplier condition) {
        long deadline = System.nanoTime() + LIMIT.toNanos();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("waited in vain until " + what);
            }
            Thread.yield();
        }
    }

    /**
     * Until a thread sleeps in Redisson's lock(), where only a message or the end of the lease wakes it. It must be parked
     * already: on its way there it would miss the message of a write unlock (KnownDefectsTest shows that).
     */
    static void untilAsleep(Thread thread) {
        until("the Java thread sleeps in lock()", () -> {
            StackTraceElement[] stack = thread.getStackTrace();
            return stack.length > 0 && stack[0].getMethodName().equals("park")
                    && Arrays.stream(stack).anyMatch(frame -> frame.getClassName().equals(Semaphore.class.getName()));
        });
    }
}
