package rlock;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.locks.LockSupport;

/** How late wake-ups are, as the median of several: a pause of the machine does not move it, polling would. */
final class Latency {
    static final int ROUNDS = 11;

    /** A wake-up wakes the server, the client, and the client's thread. */
    private static final int THREADS_IN_A_WAKE_UP = 3;

    private final List<Double> ms = new ArrayList<>();

    /** How late this machine wakes a thread that sleeps for a millisecond. A busy one wakes clients and servers late, too. */
    private final List<Double> usual = new ArrayList<>();

    void add(double late) {
        long due = System.nanoTime() + 1_000_000;
        while (System.nanoTime() < due) {
            LockSupport.parkNanos(due - System.nanoTime());
        }
        double here = (System.nanoTime() - due) / 1e6;
        synchronized (this) {
            ms.add(late);
            usual.add(here);
        }
    }

    void assertMedianWithin(double limitMs) {
        double allowed = limitMs + THREADS_IN_A_WAKE_UP * median(usual);
        String what = "woken after this many ms: " + ms + ", with a median of " + median(ms) + ", allowed are " + allowed;
        System.out.println(what);
        assertTrue(median(ms) <= allowed, what);
    }

    private static double median(List<Double> values) {
        List<Double> sorted = new ArrayList<>(values);
        Collections.sort(sorted);
        return sorted.get(sorted.size() / 2);
    }
}
