package rlock;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** How late wake-ups are, as the median of several: a pause of the machine does not move it, polling would. */
final class Latency {
    static final int ROUNDS = 11;

    private final List<Double> ms = new ArrayList<>();

    synchronized void add(double late) {
        ms.add(late);
    }

    void assertMedianWithin(double limitMs) {
        Collections.sort(ms);
        double median = ms.get(ms.size() / 2);
        System.out.println("median " + median + " of " + ms);
        assertTrue(median <= limitMs, "woken after this many ms, with a median beyond " + limitMs + ": " + ms);
    }
}
