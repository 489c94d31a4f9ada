package rlock.redisson;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;

/**
 * A lock, several locks or a permit that no thread holds: any thread may release it, or hand it on to another process. The
 * watchdog renews it until then.
 *
 * <p>{@link RedissonLocks#hold} acquires one, {@link RedissonLocks#adopt} takes one over.
 */
public interface HeldLock extends AutoCloseable {
    /**
     * The name.
     *
     * @return for several locks, their names with commas between them; for an adopted lock, its key in the server
     */
    String getName();

    /**
     * The holder, as the server stores it.
     *
     * @return unique to this hold, and kept when it is handed on
     */
    String getHolder();

    /**
     * The fencing tokens.
     *
     * @return one for a fenced lock or a permit, one for each of several locks, or none
     */
    List<Long> getTokens();

    /**
     * For how long the hold is guaranteed, without asking a server.
     *
     * @return zero if the hold is over, or if another holder may have the lock now
     */
    Duration remaining();

    /**
     * The loss of this hold.
     *
     * @return completes on a thread of Redisson's; cancelled when the hold is released or detached
     */
    CompletableFuture<LostLock> lost();

    /**
     * Runs the work, then releases the lock. If the hold is lost meanwhile, the thread of the work is interrupted, as in
     * {@link RedissonLocks#call}.
     *
     * @param work what needs the lock
     * @param <T> the type of the result
     * @return what the work returned
     * @throws LockLostException if the hold was lost; what the work threw is suppressed in it
     * @throws IllegalMonitorStateException if the hold is over
     * @throws Exception what the work threw
     */
    <T> T call(Callable<T> work) throws Exception;

    /**
     * Hands the hold on: the server keeps the lock for one more lease, this process stops renewing it, and this object is
     * over. Another process continues with {@link RedissonLocks#adopt}.
     *
     * @return a line of text, to be kept as secret as the lock is valuable: any process that has it can release the lock
     * @throws LockLostException if the hold is lost
     * @throws IllegalMonitorStateException if the hold is over
     */
    String detach();

    /**
     * The same with a time limit for the other process. If this fails because the server does not answer, the hold goes
     * on.
     *
     * @param within how long the server keeps the lock until it is adopted
     * @return a line of text
     * @throws IllegalArgumentException if the time is not longer than zero
     * @throws LockLostException if the hold is lost
     * @throws IllegalMonitorStateException if the hold is over
     */
    String detach(Duration within);

    /**
     * Releases the hold.
     *
     * @throws IllegalMonitorStateException if it was released or detached, or if it is lost: then its cause is a
     *     LockLostException
     */
    void unlock();

    /**
     * Releases the hold unless it was released or detached. If the server does not answer, the release is repeated in the
     * background.
     *
     * @throws LockLostException if the hold is lost
     */
    @Override
    void close();
}
