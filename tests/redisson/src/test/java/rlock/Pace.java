package rlock;

import java.util.concurrent.Semaphore;
import java.util.stream.Stream;

/**
 * Keeps all sides together: none gets more than a few rounds ahead of the others.
 *
 * <p>Without it the native workers would all be done before the first of Java's: while one of them waits in the server's
 * queue, the lock goes to it and not to plain Redisson (docs/redisson.md), and the sides would never meet.
 */
final class Pace {
    private final Semaphore[] turns;

    /** With two sides the lead may be longer: one of them is never alone in the queue for long. */
    Pace(int sides) {
        int lead = sides == 2 ? 16 : 4;
        turns = Stream.generate(() -> new Semaphore(lead)).limit(sides).toArray(Semaphore[]::new);
    }

    /** To be called outside the lock. */
    void beginRound(int side) throws InterruptedException {
        turns[side].acquire();
    }

    /** Lets the next side begin one more. */
    void endRound(int side) {
        turns[(side + 1) % turns.length].release();
    }
}
