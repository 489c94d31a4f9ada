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
    /** Shared so that a client has one watchdog and counts its holds once; kept for as long as any of its locks is used. */
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
            // This takes as long as the servers do, and must not hold up other clients.
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
        // The server knows no such session, and says so.
        Request probe = Request.cancel(UUID.randomUUID().toString(), "0");
        try {
            // By way of a key first, which makes a lazy client connect.
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

    /** The server with the options of one lock. */
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
        // Redisson's lock knows the key of a name.
        return new NativePermits(server, locks, name, key(redisson.getLock(name)), limit);
    }

    @Override
    public byte[] once(String name, Duration keep, Duration wait, Callable<byte[]> work) throws Exception {
        Objects.requireNonNull(work, "work");
        NativeLock.failIfInterrupted();
        Flights.Caller caller = board(name, keep, wait);
        byte[] answer = NativeLock.getUnwrapped(server, caller.turn, true);
        return answer != null ? answer.clone() : caller.call(work);
    }

    private Flights.Caller board(String name, Duration keep, Duration wait) {
        NativeLock.failIfEmpty(name);
        Hold.Id id = Hold.Id.of(Side.ONCE, key(redisson.getLock(name)), server, NativeHeld.number(), name);
        return locks.flights.board(id, NativeLock.limitMs(wait), NativeLock.keepMs(keep));
    }

    @Override
    public CompletableFuture<byte[]> onceAsync(
            String name, Duration keep, Duration wait, Supplier<? extends CompletionStage<byte[]>> work) {
        Objects.requireNonNull(work, "work");
        CompletableFuture<byte[]> result = new CompletableFuture<>();
        Flights.Caller caller = board(name, keep, wait);
        result.whenComplete((any, error) -> caller.turn.cancel(false));
        // The work may block, which the threads that bring replies must not.
        caller.turn.whenCompleteAsync((answer, error) -> {
            if (error != null) {
                result.completeExceptionally(Server.cause(error));
            } else if (answer != null) {
                result.complete(answer.clone());
            } else {
                caller.begin(work, result);
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
    public HeldLock hold(RLock lock, Duration wait) throws InterruptedException {
        List<NativeLock> members = lock instanceof NativeMultiLock ? ((NativeMultiLock) lock).together()
                : List.of(Watched.as(NativeLock.class, lock));
        NativeLock first = members.get(0);
        long number = NativeHeld.number();
        return hold(first.server, first.locks, members.stream().map(member -> member.id(number)).collect(Collectors.toList()),
                wait, first.isFenced(), 0);
    }

    @Override
    public HeldLock hold(Permits permits, Duration wait) throws InterruptedException {
        Hold.Id id = Watched.as(NativePermits.class, permits).id(NativeHeld.number());
        return hold(server, locks, List.of(id), wait, true, permits.getLimit());
    }

    private static HeldLock hold(Server server, Locks locks, List<Hold.Id> ids, Duration wait, boolean isFenced, int limit)
            throws InterruptedException {
        NativeLock.failIfInterrupted();
        Hold.Lease kept = new Hold.Lease(server.watchdogMs(), true);
        HeldLock held = NativeLock.getUnwrapped(server, NativeHeld.take(
                server, locks, ids, new Attempt.Terms(NativeLock.limitMs(wait), kept, isFenced, limit)), true);
        if (held == null) {
            throw new LockBusyException(ids.get(0).name, wait);
        }
        return held;
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
