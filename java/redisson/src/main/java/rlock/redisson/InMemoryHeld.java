package rlock.redisson;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;

/** A hold in memory that no thread has. */
final class InMemoryHeld implements HeldLock, Guard.Subject {
    private static final long LEASE_MS = 30_000;

    private final InMemoryLock lock;
    private final int limit;
    private final List<Long> tokens;
    private final long number;
    private boolean isOver;

    InMemoryHeld(InMemoryLock lock, int limit, List<Long> tokens, long number) {
        this.lock = lock;
        this.limit = limit;
        this.tokens = tokens;
        this.number = number;
    }

    static InMemoryHeld adopt(Handover terms, InMemoryLock lock) {
        long number = Long.parseLong(terms.holder);
        if (!lock.restart(InMemoryHolds.FOR_EVER, number)) {
            throw new LockLostException(
                    new LostLock(lock.name(), number, null, LossReason.NOT_HELD, null));
        }
        return new InMemoryHeld(lock, terms.limit, terms.tokens, number);
    }

    @Override
    public String getName() {
        return lock.name();
    }

    @Override
    public String name() {
        return lock.name();
    }

    @Override
    public String getHolder() {
        return "" + number;
    }

    @Override
    public List<Long> getTokens() {
        return tokens;
    }

    @Override
    public Duration remaining() {
        return Duration.ofMillis(lock.remainingMs(number));
    }

    @Override
    public CompletableFuture<LostLock> loss() {
        return lock.loss(number);
    }

    @Override
    public CompletableFuture<LostLock> lost() {
        return loss();
    }

    @Override
    public LostLock lossByNow() {
        return lock.lossByNow(number);
    }

    @Override
    public <T> T call(Callable<T> work) throws Exception {
        failIfOver();
        return Guard.call(this, work);
    }

    private synchronized void failIfOver() {
        if (isOver) {
            throw new IllegalMonitorStateException(name() + " was released or detached");
        }
    }

    @Override
    public String detach() {
        return detach(Duration.ofMillis(LEASE_MS));
    }

    @Override
    public synchronized String detach(Duration within) {
        long lease = Clock.ns(NativeLock.leaseMs(within));
        failIfOver();
        if (!lock.restart(lease, number)) {
            throw new LockLostException(lossByNow());
        }
        isOver = true;
        lock.forget(number);
        List<String> keys = lock.members.stream().map(holds -> holds.name).collect(Collectors.toList());
        return new Handover(Handover.Kind.of(lock.side, keys.size()), LEASE_MS, limit, tokens, getHolder(), keys)
                .toString();
    }

    @Override
    public synchronized void unlock() {
        failIfOver();
        lock.end(number);
        isOver = true;
    }

    @Override
    public synchronized void end(boolean isDone) {
        if (!isOver) {
            isOver = true;
            lock.end(number);
        }
    }

    @Override
    public void close() {
        LostLock lost = Guard.end(this, true);
        if (lost != null) {
            throw new LockLostException(lost);
        }
    }
}
