package rlock.redisson;

import java.util.concurrent.CompletableFuture;

/**
 * Work under a lock, turn by turn, until this is closed: {@link RedissonLocks#lead} begins it. It has a thread of its own.
 */
public interface Lead extends AutoCloseable {
    /** The work of one turn. */
    @FunctionalInterface
    interface Work {
        /**
         * Runs under the lock, and is interrupted when the lock is lost or the lead is closed.
         *
         * @throws Exception ends the lead
         */
        void run() throws Exception;
    }

    /**
     * The end of the lead.
     *
     * @return completes after the lock is released: with null if the lead was closed; exceptionally with the work's error, or
     *     with one that does not go away, such as a missing access right
     */
    CompletableFuture<Void> end();

    /**
     * Interrupts the work, or the wait for the lock, and returns when the lock is released. On the thread of the work it
     * returns at once. If this thread is interrupted, it returns earlier and keeps the interrupt.
     */
    @Override
    void close();
}
