package rlock.redisson;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.api.options.CommonOptions;
import org.slf4j.LoggerFactory;

/**
 * Redisson's own locks, granted and waited for inside the server:
 *
 * <pre>{@code RedissonLocks locks = RedissonLocks.of(redisson);}</pre>
 *
 * <p>They have Redisson's interfaces, keys and holders, so services with plain Redisson share them. This is no
 * RedissonClient: everything else stays with the client itself, which is {@link #getRedisson}.
 */
public interface RedissonLocks {

    /**
     * The locks of a client, by the RLOCK commands.
     *
     * @param redisson as {@code Redisson.create} returned it; it stays usable, and its {@code shutdown} ends the locks
     * @return the same object for the same client
     * @throws RlockMissingException if a master has not loaded the module
     */
    static RedissonLocks of(RedissonClient redisson) {
        return of(redisson, Options.defaults());
    }

    /**
     * The same with options.
     *
     * @param redisson as {@code Redisson.create} returned it
     * @param options settings that differ from the defaults
     * @return the same object for the same client and options
     * @throws RlockMissingException if a master has not loaded the module
     */
    static RedissonLocks of(RedissonClient redisson, Options options) {
        return NativeLocks.of(redisson, options);
    }

    /**
     * The same. If a master has not loaded the module, or {@code Redisson.create} did not make the client (a proxy), these
     * are Redisson's own locks, with a line in the log. {@link #isNative} says which.
     *
     * @param redisson any client
     * @return locks in either case
     */
    static RedissonLocks ifAvailable(RedissonClient redisson) {
        return ifAvailable(redisson, Options.defaults());
    }

    /**
     * The same with options.
     *
     * @param redisson any client
     * @param options settings that differ from the defaults
     * @return locks in either case
     */
    static RedissonLocks ifAvailable(RedissonClient redisson, Options options) {
        try {
            return of(redisson, options);
        } catch (RlockMissingException | IllegalArgumentException e) {
            LoggerFactory.getLogger(RedissonLocks.class).warn("Redisson's own locks are used: {}", e.getMessage());
            return new OwnLocks(redisson);
        }
    }

    /**
     * A plain lock.
     *
     * @param name as for {@code RedissonClient.getLock}
     * @return the lock of that name
     */
    RLock getLock(String name);

    /**
     * A plain lock with settings of its own.
     *
     * @param options name and settings
     * @return the lock with these settings
     */
    RLock getLock(CommonOptions options);

    /**
     * A lock that draws a fencing token at each grant.
     *
     * @param name as for {@code RedissonClient.getFencedLock}
     * @return the lock of that name
     */
    RFencedLock getFencedLock(String name);

    /**
     * The same with settings of its own.
     *
     * @param options name and settings
     * @return the lock with these settings
     */
    RFencedLock getFencedLock(CommonOptions options);

    /**
     * A read-write lock.
     *
     * @param name as for {@code RedissonClient.getReadWriteLock}
     * @return the lock of that name
     */
    RReadWriteLock getReadWriteLock(String name);

    /**
     * The same with settings of its own.
     *
     * @param options name and settings
     * @return the lock with these settings
     */
    RReadWriteLock getReadWriteLock(CommonOptions options);

    /**
     * Redisson's own fair lock, with a queue that no RLOCK command knows; or, with {@link Options#fairIsNative}, the
     * plain lock, which is fair already.
     *
     * @param name as for {@code RedissonClient.getFairLock}
     * @return the lock of that name
     */
    RLock getFairLock(String name);

    /**
     * The same with settings of its own.
     *
     * @param options name and settings
     * @return the lock with these settings
     */
    RLock getFairLock(CommonOptions options);

    /**
     * Several locks as one. Plain locks on one server, or in one slot of a cluster, are taken all or none by one command;
     * others one after the other.
     *
     * @param locks either all of them of this object, or none
     * @return all of them as one
     */
    RLock getMultiLock(RLock... locks);

    /**
     * Permits: at most {@code limit} holders at once. They are not Redisson's semaphores, which have other keys.
     *
     * @param name of the permits
     * @param limit 1 to 100,000; each request is judged by its own limit
     * @return the permits of that name
     * @throws UnsupportedOperationException if these are Redisson's own locks
     */
    default Permits getPermits(String name, int limit) {
        throw OwnLocks.hasNone();
    }

    /**
     * Waits for the lock and holds it under a holder of its own, not for a thread: so any thread may release it, or hand it
     * on to another process by {@link HeldLock#detach}. A thread that holds the lock already waits for itself.
     *
     * @param lock of this object; a multi-lock must have plain locks of one slot
     * @return the hold
     * @throws InterruptedException if this thread was interrupted while it waited
     * @throws UnsupportedOperationException if these are Redisson's own locks
     */
    default HeldLock hold(RLock lock) throws InterruptedException {
        return hold(lock, ChronoUnit.FOREVER.getDuration());
    }

    /**
     * The same, with a limit to the wait.
     *
     * @param lock of this object
     * @param wait the longest time to wait; zero tries once
     * @return the hold
     * @throws LockBusyException if the lock was not granted within the wait
     * @throws InterruptedException if this thread was interrupted while it waited
     */
    default HeldLock hold(RLock lock, Duration wait) throws InterruptedException {
        throw OwnLocks.hasNone();
    }

    /**
     * The same for a permit. Each grant draws a fencing token.
     *
     * @param permits of this object
     * @return the hold
     * @throws InterruptedException if this thread was interrupted while it waited
     */
    default HeldLock hold(Permits permits) throws InterruptedException {
        return hold(permits, ChronoUnit.FOREVER.getDuration());
    }

    /**
     * The same for a permit, with a limit to the wait.
     *
     * @param permits of this object
     * @param wait the longest time to wait; zero tries once
     * @return the hold
     * @throws LockBusyException if no permit was granted within the wait
     * @throws InterruptedException if this thread was interrupted while it waited
     */
    default HeldLock hold(Permits permits, Duration wait) throws InterruptedException {
        throw OwnLocks.hasNone();
    }

    /**
     * Takes over a lock that this or another process has detached, in any language. The text can be adopted once: if it is
     * adopted twice, both processes hold the lock under the same name, and if one releases it, the other loses it.
     *
     * @param text as {@link HeldLock#detach} returned it; its lease must not have ended
     * @return the hold, renewed and with its losses reported as if it had been acquired here
     * @throws IllegalArgumentException if this is not the text of a detached lock
     * @throws LockLostException if the lease has ended, or the lock was released
     * @throws UnsupportedOperationException if these are Redisson's own locks
     */
    default HeldLock adopt(String text) {
        throw OwnLocks.hasNone();
    }

    /**
     * Waits for the lock, runs the work, and unlocks. If the lock is lost meanwhile, the thread of the work is
     * interrupted: once, and never after the work has ended. Redisson's own locks report no loss, so under
     * these nothing is interrupted.
     *
     * @param lock which this thread takes
     * @param work what needs it
     * @param <T> the type of the result
     * @return what the work returned, even if the unlock has no reply
     * @throws LockLostException if the lock was lost during the work; what the work threw is suppressed in it
     * @throws InterruptedException if this thread was interrupted while it waited
     * @throws Exception what the work threw
     */
    default <T> T call(RLock lock, Callable<T> work) throws Exception {
        lock.lockInterruptibly();
        return Guard.call(lock, work);
    }

    /**
     * The same, with a limit to the wait.
     *
     * @param lock which this thread takes
     * @param wait the longest time to wait; zero tries once
     * @param work what needs the lock
     * @param <T> the type of the result
     * @return what the work returned
     * @throws IllegalArgumentException if the wait is negative
     * @throws LockBusyException if the lock was not granted within the wait
     * @throws LockLostException if the lock was lost during the work
     * @throws InterruptedException if this thread was interrupted while it waited
     * @throws Exception what the work threw
     */
    default <T> T call(RLock lock, Duration wait, Callable<T> work) throws Exception {
        if (!lock.tryLock(NativeLock.waitMs(wait), -1, TimeUnit.MILLISECONDS)) {
            throw new LockBusyException(lock.getName(), wait);
        }
        return Guard.call(lock, work);
    }

    /**
     * The same with a plain lock, for work without a result. While it waits, interrupts are kept for later, as by
     * {@code lock()}.
     *
     * @param name of the lock
     * @param work what needs it
     * @throws LockLostException if the lock was lost during the work
     */
    default void run(String name, Runnable work) {
        RLock lock = getLock(name);
        lock.lock();
        Guard.run(lock, work);
    }

    /**
     * Runs work under the lock, turn by turn, on a thread of its own: waits for the lock, runs the work, releases, and begins
     * again at the end of the queue, until the lead is closed. If the lock is lost, the work is interrupted, and the lead
     * waits for the lock again. If no server is available, it tries again, with pauses of up to 3 s.
     *
     * @param lock which the thread of the work takes, so {@code remaining(lock)} can be asked there
     * @param work one turn; its error ends the lead
     * @return the lead, which ends when it is closed
     */
    default Lead lead(RLock lock, Lead.Work work) {
        return new Lead(lock, work);
    }

    /**
     * The answer of a key. Of all callers with this key, in all processes, one does the work at a time, and all get its value
     * until it expires. The others wait meanwhile; callers of one process share one request. The work runs in this thread,
     * under the plain lock of that name, and is interrupted if the lock is lost.
     *
     * <p>If the work fails, nothing is stored, its error reaches this caller alone, and the next caller works. This is not
     * "exactly once": an answer may be lost by a failover, by eviction, or by {@link #forget}.
     *
     * @param name of the lock and of the answer
     * @param keep how long the answer is kept, 1 ms or longer
     * @param work must not return null
     * @return the answer that was stored, or the work's value, also if it is in doubt whether that is stored
     * @throws IllegalArgumentException if the name is empty or {@code keep} is below 1 ms
     * @throws LockLostException if the lock was lost during the work
     * @throws InterruptedException if this thread was interrupted while it waited
     * @throws UnsupportedOperationException if these are Redisson's own locks
     * @throws Exception what the work threw; or Redisson's own exception, for example if the answer is too long
     */
    default byte[] once(String name, Duration keep, Callable<byte[]> work) throws Exception {
        return once(name, keep, ChronoUnit.FOREVER.getDuration(), work);
    }

    /**
     * The same, with a limit to the wait.
     *
     * @param name of the lock and of the answer
     * @param keep how long the answer is kept, 1 ms or longer
     * @param wait the longest time to wait; zero tries once
     * @param work must not return null
     * @return the answer that was stored, or the work's value
     * @throws LockBusyException if there was no answer within the wait, and this caller could not lead
     * @throws Exception as above
     */
    default byte[] once(String name, Duration keep, Duration wait, Callable<byte[]> work) throws Exception {
        throw OwnLocks.hasNone();
    }

    /**
     * The same for a text, stored as UTF-8.
     *
     * @param name of the lock and of the answer
     * @param keep how long the answer is kept, 1 ms or longer
     * @param work must not return null
     * @return the answer that was stored, or the work's value
     * @throws Exception as above
     */
    default String onceText(String name, Duration keep, Callable<String> work) throws Exception {
        return onceText(name, keep, ChronoUnit.FOREVER.getDuration(), work);
    }

    /**
     * The same for a text, with a limit to the wait.
     *
     * @param name of the lock and of the answer
     * @param keep how long the answer is kept, 1 ms or longer
     * @param wait the longest time to wait; zero tries once
     * @param work must not return null
     * @return the answer that was stored, or the work's value
     * @throws LockBusyException if there was no answer within the wait, and this caller could not lead
     * @throws Exception as above
     */
    default String onceText(String name, Duration keep, Duration wait, Callable<String> work) throws Exception {
        return new String(
                once(name, keep, wait, () -> work.call().getBytes(StandardCharsets.UTF_8)), StandardCharsets.UTF_8);
    }

    /**
     * The same without a thread that waits. The stage of the work is cancelled if the lock is lost, or if this caller cancels
     * the result; then the lock is released, and the next caller works.
     *
     * @param name of the lock and of the answer
     * @param keep how long the answer is kept, 1 ms or longer
     * @param work begins the work, on a thread of Redisson's
     * @return completes with the answer that was stored, or the work's value
     */
    default CompletableFuture<byte[]> onceAsync(
            String name, Duration keep, Supplier<? extends CompletionStage<byte[]>> work) {
        return onceAsync(name, keep, ChronoUnit.FOREVER.getDuration(), work);
    }

    /**
     * The same, with a limit to the wait.
     *
     * @param name of the lock and of the answer
     * @param keep how long the answer is kept, 1 ms or longer
     * @param wait the longest time to wait; zero tries once
     * @param work begins the work, on a thread of Redisson's
     * @return completes with the answer, or exceptionally with LockBusyException
     */
    default CompletableFuture<byte[]> onceAsync(
            String name, Duration keep, Duration wait, Supplier<? extends CompletionStage<byte[]>> work) {
        throw OwnLocks.hasNone();
    }

    /**
     * Removes the answer of a key, so that the next caller of {@link #once} works.
     *
     * @param name of the answer
     * @return whether there was one
     */
    default boolean forget(String name) {
        throw OwnLocks.hasNone();
    }

    /**
     * Reports each loss of a lock of this client: the server says that the lock is not held any more, or the watchdog could
     * not renew it until its lease was over, or no replica has confirmed the renewal where Redisson checks that. A lock
     * with a lease of its own ends with that lease, without a report.
     *
     * @param listener called on a thread of Redisson's
     * @return ends the reports when it is run
     */
    Runnable onLost(Consumer<LostLock> listener);

    /**
     * The loss of the lock that the current thread holds: cancelled when it is unlocked, or when a lease of its own is
     * over.
     *
     * @param lock of this object; of a multi-lock, the first loss of one of its locks counts
     * @return completes on a thread of Redisson's
     * @throws IllegalMonitorStateException if the current thread does not hold it, as far as is known here
     */
    default CompletableFuture<LostLock> lost(RLock lock) {
        throw OwnLocks.hasNone();
    }

    /**
     * Reports waits, holds and losses, for metrics.
     *
     * @param observer the observer to call
     * @return ends the reports when it is run
     */
    Runnable observe(LockObserver observer);

    /**
     * How long the current thread's hold of a lock is still guaranteed: no other holder gets it within that time,
     * however slow the server and the network are, as long as the server keeps its data and no operator breaks the lock
     * open. This asks no server. A lock without a lease of its own is renewed again and again, and the time grows with each
     * renewal.
     *
     * @param lock of this object; of a multi-lock, the one of its locks that ends first counts
     * @return zero if it is not held, or may be another holder's by now
     */
    default Duration remaining(RLock lock) {
        return remaining(lock, Thread.currentThread().getId());
    }

    /**
     * The same for another thread.
     *
     * @param lock of this object
     * @param threadId the thread's id, or the one that was given to {@code lockAsync}
     * @return zero if it is not held, or may be another holder's by now
     */
    default Duration remaining(RLock lock, long threadId) {
        throw OwnLocks.hasNone();
    }

    /**
     * Gives this lease to the hold that the current thread took last, from now on. It is not renewed any more.
     *
     * @param lock of this object
     * @param lease from now on
     * @return whether it was held
     * @throws IllegalArgumentException if the lease is not longer than zero
     */
    default boolean renew(RLock lock, Duration lease) {
        return renew(lock, lease, Thread.currentThread().getId());
    }

    /**
     * The same for another thread.
     *
     * @param lock of this object
     * @param lease from now on
     * @param threadId the thread's id, or the one that was given to {@code lockAsync}
     * @return whether it was held
     */
    default boolean renew(RLock lock, Duration lease, long threadId) {
        throw OwnLocks.hasNone();
    }

    /**
     * Asks each master for the module.
     *
     * @throws RlockMissingException if one has not loaded it; or Redisson's own exception, if one does not answer
     */
    void check();

    /**
     * Whether the locks use the RLOCK commands.
     *
     * @return false for Redisson's own locks
     */
    boolean isNative();

    /**
     * The client.
     *
     * @return the client to which these locks belong
     */
    RedissonClient getRedisson();

    /** Settings that differ from the defaults. Each method returns a changed copy. */
    final class Options {
        private static final Options DEFAULTS = new Options(false);

        final boolean isFairNative;

        private Options(boolean isFairNative) {
            this.isFairNative = isFairNative;
        }

        /**
         * The defaults.
         *
         * @return options with Redisson's own fair locks
         */
        public static Options defaults() {
            return DEFAULTS;
        }

        /**
         * {@code getFairLock} returns the plain lock: its queue is in the server, and is first come, first served. Use
         * it only if all clients of these locks do so: Redisson's own fair lock and this one do not keep each other's order.
         *
         * @return a changed copy
         */
        public Options fairIsNative() {
            return new Options(true);
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Options && ((Options) other).isFairNative == isFairNative;
        }

        @Override
        public int hashCode() {
            return Boolean.hashCode(isFairNative);
        }
    }
}
