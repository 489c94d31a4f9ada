package rlock.redisson;

import java.time.Duration;

/**
 * Permits of one name: at most so many threads have one at once. A thread has one at most; asking again restarts its
 * lease. Waiters are served in their order.
 *
 * <p>The watchdog renews a permit without a lease until it is released, as it does a lock, and its loss is reported.
 */
public interface Permits {
    /**
     * The name.
     *
     * @return as it was given to {@link RedissonLocks#getPermits}
     */
    String getName();

    /**
     * How many threads can have one at once.
     *
     * @return as it was given to {@link RedissonLocks#getPermits}
     */
    int getLimit();

    /** Waits for a permit, however long. An interrupt is kept for later. */
    void acquire();

    /**
     * Takes a permit if one is free.
     *
     * @return whether the current thread has one
     */
    boolean tryAcquire();

    /**
     * Waits for a permit.
     *
     * @param wait the longest time to wait
     * @return whether the current thread has one
     * @throws InterruptedException if the thread was interrupted
     */
    boolean tryAcquire(Duration wait) throws InterruptedException;

    /**
     * Waits for a permit that ends by itself.
     *
     * @param wait the longest time to wait
     * @param lease how long it lasts; it is not renewed
     * @return whether the current thread has one
     * @throws InterruptedException if the thread was interrupted
     */
    boolean tryAcquire(Duration wait, Duration lease) throws InterruptedException;

    /**
     * Releases the current thread's permit.
     *
     * @throws IllegalMonitorStateException if it has none
     */
    void release();

    /**
     * How long the current thread's permit is guaranteed, without asking a server.
     *
     * @return zero if it has none, or may have none by now
     */
    default Duration remaining() {
        return remaining(Thread.currentThread().getId());
    }

    /**
     * The same for another thread.
     *
     * @param threadId the thread's id
     * @return zero if it has none, or may have none by now
     */
    Duration remaining(long threadId);
}
