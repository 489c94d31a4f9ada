package rlock;

import java.util.concurrent.Semaphore;

/**
 * Keeps two sides together: neither gets more than a few rounds ahead of the other.
 *
 * <p>Without it the native workers would all be done before the first of Java's: while one of them waits in the server's
 * queue, the lock goes to it and not to Java, and the two sides would never meet.
 */
final class Pace {
    private static final int LEAD = 16;

    private final Semaphore mine;
    private final Semaphore theirs;

    private Pace(Semaphore mine, Semaphore theirs) {
        this.mine = mine;
        this.theirs = theirs;
    }

    static Pace start() {
        return new Pace(new Semaphore(LEAD), new Semaphore(LEAD));
    }

    Pace ofTheOtherSide() {
        return new Pace(theirs, mine);
    }

    /** To be called outside the lock. */
    void beginRound() throws InterruptedException {
        mine.acquire();
    }

    void endRound() {
        theirs.release();
    }
}
