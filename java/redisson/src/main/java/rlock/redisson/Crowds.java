package rlock.redisson;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Which locks were not free a moment ago: a request for one of them asks for a place in the queue at once, and spares
 * the server a try in vain. Two locks may share a slot; that costs a renewal, and nothing else.
 */
final class Crowds {
    private static final int SLOTS = 1_024;
    private static final long MOMENT_NS = TimeUnit.SECONDS.toNanos(1);

    /** When a request last had to wait; 0: none had. */
    private final AtomicLongArray waited = new AtomicLongArray(SLOTS);

    void waits(String key) {
        waited.set(slot(key), System.nanoTime() | 1);
    }

    boolean isCrowded(String key) {
        long last = waited.get(slot(key));
        return last != 0 && System.nanoTime() - last < MOMENT_NS;
    }

    private static int slot(String key) {
        int hash = key.hashCode();
        return (hash ^ hash >>> 16) & SLOTS - 1;
    }
}
