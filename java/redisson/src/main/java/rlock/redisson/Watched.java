package rlock.redisson;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;

/** A lock for which this process knows its own holds. */
interface Watched {
    /** How long this thread's hold is guaranteed. */
    long remainingMs(long thread);

    /**
     * Completes on the thread that notices that this thread's hold is lost; is cancelled when it is over otherwise.
     *
     * @return completed already if there is none
     */
    CompletableFuture<LostLock> loss(long thread);

    /** The loss, reported or not; null if this thread's hold is guaranteed. */
    LostLock lossByNow(long thread);

    /** An unlock after which this thread's hold is over, also if no server has answered. */
    void end(long thread);

    /** From now on this thread's last hold has a lease of its own. Completes with whether it was held. */
    CompletableFuture<Boolean> restartLease(long leaseMs, long thread);

    /**
     * The first of these losses; cancelled when all of them are.
     *
     * @param teller the executor on which it completes
     */
    static CompletableFuture<LostLock> firstOf(List<CompletableFuture<LostLock>> each, Executor teller) {
        CompletableFuture<LostLock> first = new CompletableFuture<>();
        each.forEach(one -> one.whenCompleteAsync((lost, over) -> {
            if (lost != null) {
                first.complete(lost);
            } else if (each.stream().allMatch(CompletableFuture::isCancelled)) {
                first.cancel(false);
            }
        }, teller));
        first.whenComplete((lost, over) -> each.forEach(one -> one.cancel(false)));
        return first;
    }

    /** A lock by the RLOCK commands, as the given class of such locks. */
    static <W> W as(Class<W> type, Object lock) {
        if (type.isInstance(lock)) {
            return type.cast(lock);
        }
        throw new IllegalArgumentException("not by the RLOCK commands: " + lock);
    }
}
