package rlock.redisson;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/** A hold in memory that no thread has. */
final class InMemoryHeld extends AbstractHeld {
    private final InMemoryLock lock;
    private final long number;

    InMemoryHeld(InMemoryLock lock, Handover terms) {
        super(lock.name(), terms);
        this.lock = lock;
        number = Long.parseLong(terms.holder);
    }

    HeldLock adopted() {
        if (!lock.restart(InMemoryHolds.FOR_EVER, number)) {
            throw new LockLostException(new LostLock(getName(), number, null, LossReason.NOT_HELD, null));
        }
        return this;
    }

    @Override
    public Duration remaining() {
        return Duration.ofMillis(lock.remainingMs(number));
    }

    @Override
    public CompletableFuture<LostLock> lost() {
        return loss();
    }

    @Override
    public CompletableFuture<LostLock> loss() {
        return lock.loss(number);
    }

    @Override
    LostLock lossIfHeld() {
        return lock.lossByNow(number);
    }

    @Override
    void handOn(long withinMs) {
        lock.restart(Clock.ns(withinMs), number);
        lock.members.forEach(holds -> holds.forget(lock.side, number));
    }

    @Override
    void release(boolean isForGood) {
        lock.end(number);
    }
}
