package rlock.redisson;

import java.time.Duration;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ForkJoinPool;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.api.options.CommonOptions;
import org.redisson.api.options.CommonParams;

/**
 * Locks for tests, without a server: {@code new InMemoryLocks()}. They exclude the threads of this object's users, and no
 * other process. Waiters are served in their order, leases end, and {@link #lose} makes a holder lose its lock.
 */
public final class InMemoryLocks implements RedissonLocks {
    private final Map<String, InMemoryHolds> all = new ConcurrentHashMap<>();
    private final InMemoryAnswers answers = new InMemoryAnswers();
    private final Observers observers = new Observers(ForkJoinPool.commonPool());

    /** None of the locks is held at first. */
    public InMemoryLocks() {
        // Its state is in its fields.
    }

    /**
     * Ends all holds of a lock, as if it had been broken or the server had forgotten it. Work under {@code call} is
     * interrupted.
     *
     * @param name of the lock
     */
    public void lose(String name) {
        holds(name).lose();
    }

    private InMemoryHolds holds(String name) {
        return all.computeIfAbsent(Objects.requireNonNull(name, "name"), of -> new InMemoryHolds(of, observers));
    }

    private <L extends RLock> L lock(Class<L> type, Side side, String name) {
        return InMemoryLock.of(type, side, List.of(holds(name)));
    }

    private static String name(CommonOptions options) {
        return ((CommonParams) options).getName();
    }

    @Override
    public RLock getLock(String name) {
        return lock(RLock.class, Side.PLAIN, name);
    }

    @Override
    public RLock getLock(CommonOptions options) {
        return getLock(name(options));
    }

    @Override
    public RFencedLock getFencedLock(String name) {
        return lock(RFencedLock.class, Side.PLAIN, name);
    }

    @Override
    public RFencedLock getFencedLock(CommonOptions options) {
        return getFencedLock(name(options));
    }

    @Override
    public RReadWriteLock getReadWriteLock(String name) {
        return new RReadWriteLock() {
            @Override
            public RLock readLock() {
                return lock(RLock.class, Side.READ, name);
            }

            @Override
            public RLock writeLock() {
                return lock(RLock.class, Side.WRITE, name);
            }
        };
    }

    @Override
    public RReadWriteLock getReadWriteLock(CommonOptions options) {
        return getReadWriteLock(name(options));
    }

    @Override
    public RLock getFairLock(String name) {
        return getLock(name);
    }

    @Override
    public RLock getFairLock(CommonOptions options) {
        return getLock(options);
    }

    @Override
    public RLock getMultiLock(RLock... locks) {
        List<InMemoryHolds> members = Arrays.stream(locks).flatMap(lock -> InMemoryLock.of(lock).members.stream())
                // In one order, so that two multi-locks cannot wait for each other.
                .distinct().sorted(Comparator.comparing(holds -> holds.name)).collect(Collectors.toList());
        return InMemoryLock.of(RLock.class, Side.PLAIN, members);
    }

    @Override
    public Permits getPermits(String name, int limit) {
        return new InMemoryPermits(holds("permits:" + name), name, limit);
    }

    @Override
    public Runnable onLost(Consumer<LostLock> listener) {
        return observers.listen(listener);
    }

    @Override
    public CompletableFuture<LostLock> lost(RLock lock) {
        CompletableFuture<LostLock> loss = InMemoryLock.of(lock).loss(NativeLock.me());
        if (loss.isDone()) {
            throw new IllegalMonitorStateException(lock.getName() + " is not held by this thread");
        }
        return loss;
    }

    @Override
    public Runnable observe(LockObserver observer) {
        return observers.add(observer);
    }

    @Override
    public HeldLock hold(RLock lock, Duration wait) throws InterruptedException {
        return hold(InMemoryLock.of(lock), lock.getName(), 0, lock instanceof RFencedLock, wait);
    }

    @Override
    public HeldLock hold(Permits permits, Duration wait) throws InterruptedException {
        if (!(permits instanceof InMemoryPermits)) {
            throw new IllegalArgumentException("not permits of InMemoryLocks: " + permits);
        }
        InMemoryLock lock = new InMemoryLock(Side.PERMIT, List.of(((InMemoryPermits) permits).holds));
        return hold(lock, permits.getName(), permits.getLimit(), true, wait);
    }

    private static HeldLock hold(InMemoryLock lock, String name, int limit, boolean isFenced, Duration wait)
            throws InterruptedException {
        NativeLock.failIfInterrupted();
        long number = NativeHeld.number();
        long waitNs = InMemoryHolds.waitNs(NativeLock.limitMs(wait));
        Long token = lock.acquire(limit, number, waitNs, InMemoryHolds.FOR_EVER, true);
        if (token == null) {
            throw new LockBusyException(name, wait);
        }
        return new InMemoryHeld(lock, new Handover(lock.side, InMemoryHolds.KEPT_MS, limit,
                isFenced ? List.of(token) : List.of(), "" + number,
                lock.members.stream().map(holds -> holds.name).collect(Collectors.toList())));
    }

    @Override
    public HeldLock adopt(String text) {
        Handover terms = Handover.parse(text);
        return new InMemoryHeld(new InMemoryLock(
                terms.side, terms.keys.stream().map(this::holds).collect(Collectors.toList())), terms).adopted();
    }

    @Override
    public byte[] once(String name, Duration keep, Duration wait, Callable<byte[]> work) throws Exception {
        return answers.once(name, keep, () -> hold(getLock(name), wait), work);
    }

    @Override
    public CompletableFuture<byte[]> onceAsync(
            String name, Duration keep, Duration wait, Supplier<? extends CompletionStage<byte[]>> work) {
        return answers.async(name, keep, () -> hold(getLock(name), wait), work);
    }

    @Override
    public boolean forget(String name) {
        return answers.forget(name);
    }

    @Override
    public Duration remaining(RLock lock, long threadId) {
        return Duration.ofMillis(InMemoryLock.of(lock).remainingMs(threadId));
    }

    @Override
    public boolean renew(RLock lock, Duration lease, long threadId) {
        return InMemoryLock.of(lock).restartLease(NativeLock.leaseMs(lease), threadId).join();
    }

    @Override
    public void check() {
        // There is no server that could be without the module.
    }

    @Override
    public boolean isNative() {
        return true;
    }

    @Override
    public RedissonClient getRedisson() {
        throw new UnsupportedOperationException("locks in memory have no Redisson client");
    }

    @Override
    public String toString() {
        return "InMemoryLocks";
    }
}
