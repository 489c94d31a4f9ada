package rlock.redisson;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;

/** What holds that no thread has share, in a server and in memory. */
abstract class AbstractHeld implements HeldLock, Guard.Subject {
    final Handover terms;
    private final String name;

    /** Released or detached. */
    private boolean isOver;

    AbstractHeld(String name, Handover terms) {
        this.name = name;
        this.terms = terms;
    }

    /** Leaves the hold with that lease, and reports no loss any more. If this fails, the hold goes on. */
    abstract void handOn(long withinMs);

    /** @param isForGood whether the hold is over also if no server answers */
    abstract void release(boolean isForGood);

    /** The loss, reported or not, of a hold that was neither released nor detached; null if it is guaranteed. */
    abstract LostLock lossIfHeld();

    private synchronized void failIfOver() {
        if (isOver) {
            throw new IllegalMonitorStateException(name + " was released or detached");
        }
    }

    @Override
    public synchronized LostLock lossByNow() {
        return isOver ? null : lossIfHeld();
    }

    @Override
    public String getName() {
        return name;
    }

    @Override
    public String getHolder() {
        return terms.holder;
    }

    @Override
    public List<Long> getTokens() {
        return terms.tokens;
    }

    @Override
    public <T> T call(Callable<T> work) throws Exception {
        failIfOver();
        return Guard.call(this, work);
    }

    @Override
    public String detach() {
        return detach(Duration.ofMillis(terms.leaseMs));
    }

    @Override
    public synchronized String detach(Duration within) {
        long withinMs = NativeLock.leaseMs(within);
        failIfOver();
        LostLock lost = lossIfHeld();
        if (lost != null) {
            throw new LockLostException(lost);
        }
        handOn(withinMs);
        isOver = true;
        return terms.toString();
    }

    @Override
    public synchronized void unlock() {
        failIfOver();
        release(false);
        isOver = true;
    }

    @Override
    public synchronized void end(boolean isDone) {
        if (!isOver) {
            isOver = true;
            release(true);
        }
    }

    @Override
    public void close() {
        LostLock lost = Guard.end(this, true);
        if (lost != null) {
            throw new LockLostException(lost);
        }
    }

    @Override
    public String toString() {
        return "HeldLock{" + name + "}";
    }
}
