package rlock.redisson;

import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.WeakHashMap;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.redisson.Redisson;
import org.redisson.RedissonObject;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.api.options.CommonOptions;
import org.redisson.api.options.CommonParams;
import org.redisson.connection.MasterSlaveEntry;

/** The locks of one client by the RLOCK commands. */
final class NativeLocks implements RedissonLocks {
    /** So that a client has one watchdog, and its holds are counted once; for as long as any of its locks is used. */
    private static final Map<RedissonClient, WeakReference<Locks>> known = new WeakHashMap<>();

    private final RedissonClient redisson;
    private final Server server;
    private final Locks locks;
    private final Options options;

    private NativeLocks(RedissonClient redisson, Locks locks, Options options) {
        this.redisson = redisson;
        this.locks = locks;
        this.options = options;
        server = locks.server;
    }

    static RedissonLocks of(RedissonClient redisson, Options options) {
        Objects.requireNonNull(redisson, "redisson");
        Objects.requireNonNull(options, "options");
        Locks locks = known(redisson);
        if (locks == null) {
            // Takes as long as its servers do, which is no reason to hold up other clients.
            check(redisson);
            locks = remember(redisson);
        }
        Locks shared = locks;
        synchronized (known) {
            return locks.views.computeIfAbsent(options, of -> new NativeLocks(redisson, shared, of));
        }
    }

    private static Locks known(RedissonClient redisson) {
        synchronized (known) {
            WeakReference<Locks> reference = known.get(redisson);
            return reference == null ? null : reference.get();
        }
    }

    private static Locks remember(RedissonClient redisson) {
        synchronized (known) {
            Locks locks = known(redisson);
            if (locks == null) {
                locks = new Locks(server(redisson));
                known.put(redisson, new WeakReference<>(locks));
            }
            return locks;
        }
    }

    private static Server server(RedissonClient redisson) {
        if (!(redisson instanceof Redisson)) {
            throw new IllegalArgumentException("not a client that Redisson.create made: " + redisson.getClass());
        }
        return new Server(((Redisson) redisson).getCommandExecutor());
    }

    static void check(RedissonClient redisson) {
        Server server = server(redisson);
        // Knows of no session, and says so.
        Request probe = Request.cancel(UUID.randomUUID().toString(), "0");
        try {
            // By way of a key first, which makes a client connect that was told to be lazy.
            answered(() -> server.repeatably("rlock", probe).join());
            for (MasterSlaveEntry master : server.masters()) {
                answered(() -> server.repeatably(master, probe).join());
            }
        } catch (CompletionException e) {
            throw RlockMissingException.because(Server.cause(e));
        }
    }

    private static void answered(Runnable ask) {
        try {
            ask.run();
        } catch (CompletionException e) {
            if (!Server.isReply(e, "NOSESSION")) {
                throw e;
            }
        }
    }

    /** The key of one of Redisson's locks. */
    static String key(RLock redissons) {
        return ((RedissonObject) redissons).getRawName();
    }

    /** With the options of one lock. */
    private Server with(CommonOptions own) {
        return server.with(server.executor().copy((CommonParams) own));
    }

    @Override
    public RLock getLock(String name) {
        return new NativeLock(server, locks, redisson.getLock(name), Side.PLAIN);
    }

    @Override
    public RLock getLock(CommonOptions own) {
        return new NativeLock(with(own), locks, redisson.getLock(own), Side.PLAIN);
    }

    @Override
    public RFencedLock getFencedLock(String name) {
        return new NativeFencedLock(server, locks, redisson.getFencedLock(name));
    }

    @Override
    public RFencedLock getFencedLock(CommonOptions own) {
        return new NativeFencedLock(with(own), locks, redisson.getFencedLock(own));
    }

    @Override
    public RReadWriteLock getReadWriteLock(String name) {
        return new NativeReadWriteLock(server, locks, redisson.getReadWriteLock(name));
    }

    @Override
    public RReadWriteLock getReadWriteLock(CommonOptions own) {
        return new NativeReadWriteLock(with(own), locks, redisson.getReadWriteLock(own));
    }

    @Override
    public RLock getFairLock(String name) {
        return options.isFairNative ? getLock(name) : redisson.getFairLock(name);
    }

    @Override
    public RLock getFairLock(CommonOptions own) {
        return options.isFairNative ? getLock(own) : redisson.getFairLock(own);
    }

    @Override
    public RLock getMultiLock(RLock... members) {
        return Arrays.stream(members).anyMatch(NativeLock.class::isInstance)
                ? new NativeMultiLock(members) : redisson.getMultiLock(members);
    }

    @Override
    public Permits getPermits(String name, int limit) {
        // Redisson's lock knows which key a name is.
        return new NativePermits(server, locks, name, key(redisson.getLock(name)), limit);
    }

    @Override
    public byte[] once(String name, Duration keep, Callable<byte[]> work) throws Exception {
        return once(name, keep, NativeLock.FOR_EVER, work);
    }

    @Override
    public byte[] once(String name, Duration keep, Duration wait, Callable<byte[]> work) throws Exception {
        return once(name, keep, NativeLock.waitMs(wait), work);
    }

    private byte[] once(String name, Duration keep, long waitMs, Callable<byte[]> work) throws Exception {
        Objects.requireNonNull(work, "work");
        NativeLock.failIfInterrupted();
        Flights.Turn turn = taken(board(name, keep, waitMs));
        return turn.answer != null ? turn.answer.clone() : turn.leader.call(work);
    }

    private CompletableFuture<Flights.Turn> board(String name, Duration keep, long waitMs) {
        NativeLock.failIfEmpty(name);
        return locks.flights.board(name, key(redisson.getLock(name)), waitMs, NativeLock.keepMs(keep));
    }

    @Override
    public CompletableFuture<byte[]> onceAsync(
            String name, Duration keep, Supplier<? extends CompletionStage<byte[]>> work) {
        return onceAsync(name, keep, NativeLock.FOR_EVER, work);
    }

    @Override
    public CompletableFuture<byte[]> onceAsync(
            String name, Duration keep, Duration wait, Supplier<? extends CompletionStage<byte[]>> work) {
        return onceAsync(name, keep, NativeLock.waitMs(wait), work);
    }

    private CompletableFuture<byte[]> onceAsync(
            String name, Duration keep, long waitMs, Supplier<? extends CompletionStage<byte[]>> work) {
        Objects.requireNonNull(work, "work");
        CompletableFuture<byte[]> result = new CompletableFuture<>();
        CompletableFuture<Flights.Turn> boarding = board(name, keep, waitMs);
        result.whenComplete((any, error) -> boarding.cancel(false));
        // The work may block, which the threads that bring replies must not.
        boarding.whenCompleteAsync((turn, error) -> {
            if (error != null) {
                result.completeExceptionally(Server.cause(error));
            } else if (turn.answer != null) {
                result.complete(turn.answer.clone());
            } else {
                turn.leader.begin(work, result);
            }
        }, server.forListeners());
        return result;
    }

    @Override
    public boolean forget(String name) {
        NativeLock.failIfEmpty(name);
        String answer = Request.answerKey(key(redisson.getLock(name)));
        return Long.valueOf(1).equals(NativeLock.get(server, server.repeatably(answer, Request.forget(answer))));
    }

    @Override
    public Runnable onLost(Consumer<LostLock> listener) {
        return locks.observers.listen(listener);
    }

    @Override
    public CompletableFuture<LostLock> lost(RLock lock) {
        Watched watched = Watched.as(Watched.class, lock);
        CompletableFuture<LostLock> loss = watched.loss(NativeLock.me());
        if (loss.isDone()) {
            throw new IllegalMonitorStateException(lock.getName() + " is not held by this thread: "
                    + server.clientId() + ":" + NativeLock.me());
        }
        return locks.forService(loss);
    }

    @Override
    public HeldLock hold(RLock lock) throws InterruptedException {
        return taken(holding(lock, NativeLock.FOR_EVER));
    }

    @Override
    public HeldLock hold(RLock lock, Duration wait) throws InterruptedException {
        return inTime(taken(holding(lock, NativeLock.waitMs(wait))), lock.getName(), wait);
    }

    private CompletableFuture<HeldLock> holding(RLock lock, long waitMs) throws InterruptedException {
        NativeLock.failIfInterrupted();
        List<NativeLock> members = lock instanceof NativeMultiLock ? ((NativeMultiLock) lock).together()
                : List.of(Watched.as(NativeLock.class, lock));
        NativeLock first = members.get(0);
        long number = NativeHeld.number();
        List<Hold.Id> ids = members.stream().map(member -> member.id(number)).collect(Collectors.toList());
        return NativeHeld.take(first.server, first.locks, ids,
                new Attempt.Terms(waitMs, kept(), first.isFenced(), 0));
    }

    private Hold.Lease kept() {
        return new Hold.Lease(server.watchdogMs(), true);
    }

    private <T> T taken(CompletableFuture<T> taking) throws InterruptedException {
        return NativeLock.getUnwrapped(server, taking, true);
    }

    static HeldLock inTime(HeldLock held, String name, Duration wait) {
        if (held == null) {
            throw new LockBusyException(name, wait);
        }
        return held;
    }

    @Override
    public HeldLock hold(Permits permits) throws InterruptedException {
        return taken(holding(permits, NativeLock.FOR_EVER));
    }

    @Override
    public HeldLock hold(Permits permits, Duration wait) throws InterruptedException {
        return inTime(taken(holding(permits, NativeLock.waitMs(wait))), permits.getName(), wait);
    }

    private CompletableFuture<HeldLock> holding(Permits permits, long waitMs) throws InterruptedException {
        NativeLock.failIfInterrupted();
        Hold.Id id = Watched.as(NativePermits.class, permits).id(NativeHeld.number());
        return NativeHeld.take(server, locks, List.of(id),
                new Attempt.Terms(waitMs, kept(), true, permits.getLimit()));
    }

    @Override
    public HeldLock adopt(String text) {
        return NativeLock.getUnwrapped(server, NativeHeld.adopt(server, locks, Handover.parse(text)));
    }

    @Override
    public Runnable observe(LockObserver observer) {
        return locks.observers.add(observer);
    }

    @Override
    public Duration remaining(RLock lock, long threadId) {
        return Duration.ofMillis(Watched.as(Watched.class, lock).remainingMs(threadId));
    }

    @Override
    public boolean renew(RLock lock, Duration lease, long threadId) {
        return NativeLock.get(server, Watched.as(Watched.class, lock).restartLease(NativeLock.leaseMs(lease), threadId));
    }

    @Override
    public void check() {
        check(redisson);
    }

    @Override
    public boolean isNative() {
        return true;
    }

    @Override
    public RedissonClient getRedisson() {
        return redisson;
    }

    @Override
    public String toString() {
        return "RedissonLocks{" + redisson + "}";
    }
}
