package rlock.redisson;

import java.time.Duration;

/**
 * Receives what the locks of a client do, on the thread that does it: the caller's, one of Redisson's netty threads, or the
 * one that renews all leases of the client. So an observer must not block.
 */
public interface LockObserver {
    /**
     * A request for a lock is over.
     *
     * @param name the lock's
     * @param time since the request
     * @param isGranted whether the caller has it
     */
    default void waited(String name, Duration time, boolean isGranted) {
    }

    /**
     * A thread has released a lock.
     *
     * @param name the lock's
     * @param time from the first grant to the last unlock
     */
    default void held(String name, Duration time) {
    }

    /**
     * A lock is lost.
     *
     * @param lost which one
     */
    default void lost(LostLock lost) {
    }
}
