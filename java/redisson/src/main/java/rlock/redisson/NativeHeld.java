package rlock.redisson;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * A hold by the RLOCK commands that no thread has. Each one has a holder of its own, so that none is taken for the re-entry of
 * one that was handed on.
 */
final class NativeHeld implements HeldLock, Guard.Subject {
    /** No thread has such an id, and a service hardly gives one to {@code lockAsync}. */
    private static final long NUMBER_MIN = 1L << 62;

    private final Server server;
    private final Locks locks;
    private final Handover terms;
    private final List<Hold.Id> ids;

    /** As it was reported. */
    private volatile LostLock reported;

    /** Released or detached. */
    private boolean isOver;

    private NativeHeld(Server server, Locks locks, Handover terms, List<Hold.Id> ids) {
        this.server = server;
        this.locks = locks;
        this.terms = terms;
        this.ids = ids;
    }

    private NativeHeld begun() {
        loss().thenAccept(lost -> reported = lost);
        return this;
    }

    /** In the place of a thread's id. */
    static long number() {
        return ThreadLocalRandom.current().nextLong(NUMBER_MIN, Long.MAX_VALUE);
    }

    /** @return null if it was not granted in time */
    static CompletableFuture<HeldLock> take(
            Server server, Locks locks, List<Hold.Id> ids, Attempt.Terms terms) {
        Hold.Id first = ids.get(0);
        List<String> keys = ids.stream().map(id -> id.key).collect(Collectors.toList());
        return Attempt.begin(server, locks, ids, terms, grant -> grant == null ? null : new NativeHeld(server, locks,
                new Handover(Handover.Kind.of(first.side, ids.size()), first.leaseMs, terms.limit,
                        grant.token == null ? List.of() : List.of(grant.token), first.holder, keys), ids).begun());
    }

    /** Takes over what another process has detached. */
    static CompletableFuture<HeldLock> adopt(Server server, Locks locks, Handover terms) {
        long number = number();
        List<Hold.Id> ids = terms.keys.stream()
                .map(key -> Hold.Id.adopted(terms.kind.side, key, terms.holder, number, terms.leaseMs))
                .collect(Collectors.toList());
        NativeHeld held = new NativeHeld(server, locks, terms, ids);
        return held.each(id -> held.adopted(id)).thenApply(untils -> {
            for (int i = 0; i < ids.size(); i++) {
                long until = untils.get(i);
                // However often it was acquired, and by whom: its release gives all of it back.
                locks.holds.change(ids.get(i), hold -> {
                    hold.attemptBegins();
                    hold.granted(new Hold.Lease(terms.leaseMs, true), until, true, true);
                });
                locks.watchdog.watch(ids.get(i));
            }
            return held.begun();
        });
    }

    /** @return until when it is held; asks again if another server is the master when the first one has answered */
    private CompletableFuture<Long> adopted(Hold.Id id) {
        long sentAt = System.nanoTime();
        Server.Node asked = server.node(id.key);
        return renewed(id, terms.leaseMs).thenCompose(isHeld -> {
            if (!isHeld) {
                throw new LockLostException(new LostLock(id, LossReason.NOT_HELD, null));
            }
            return asked == null || server.isAt(asked, id.key)
                    ? CompletableFuture.completedFuture(sentAt + Clock.ns(terms.leaseMs)) : adopted(id);
        });
    }

    /** Confirmed by replicas, as a grant is. */
    private CompletableFuture<Boolean> renewed(Hold.Id id, long leaseMs) {
        return locks.repeatedly(server, id, Request.renew(id, leaseMs), () -> { }).thenCompose(reply ->
                Server.isRenewed(reply) ? server.replicated(id, leaseMs) : CompletableFuture.completedFuture(false))
                .exceptionally(error -> {
                    if (Server.isOverwritten(error)) {
                        throw new LockLostException(new LostLock(id, LossReason.OVERWRITTEN, Server.cause(error)));
                    }
                    throw new CompletionException(Server.cause(error));
                });
    }

    /** Fails when all are done, if one has failed. */
    private <R> CompletableFuture<List<R>> each(Function<Hold.Id, CompletableFuture<R>> does) {
        List<CompletableFuture<R>> all = ids.stream().map(does).collect(Collectors.toList());
        return CompletableFuture.allOf(all.toArray(new CompletableFuture<?>[0]))
                .thenApply(done -> all.stream().map(CompletableFuture::join).collect(Collectors.toList()));
    }

    @Override
    public synchronized String detach() {
        return detach(terms.leaseMs);
    }

    @Override
    public synchronized String detach(Duration within) {
        return detach(NativeLock.leaseMs(within));
    }

    private String detach(long withinMs) {
        failIfOver();
        LostLock lost = lossByNow();
        if (lost != null) {
            throw new LockLostException(lost);
        }
        NativeLock.getUnwrapped(server, handOn(withinMs));
        isOver = true;
        return terms.toString();
    }

    private CompletableFuture<Void> handOn(long withinMs) {
        long[] sentAt = {0};
        return each(id -> locks.holds.with(id, Hold::pauseRenewals)).thenCompose(areOver -> {
            sentAt[0] = System.nanoTime();
            return each(id -> renewed(id, withinMs));
        }).handle((areHeld, error) -> {
            LostLock lost = error == null ? lost(areHeld) : lost(Server.cause(error));
            if (lost == null && error == null && ids.stream().allMatch(id -> locks.holds.with(id, Hold::isHeld))) {
                ids.forEach(id -> locks.given(id, Hold::isGone));
                return null;
            }
            ids.forEach(id -> goesOn(id, sentAt[0] + Clock.ns(withinMs)));
            if (error != null && lost == null) {
                throw new CompletionException(Server.cause(error));
            }
            throw new LockLostException(lost != null ? lost : new LostLock(ids.get(0), LossReason.ENDED, null));
        });
    }

    /** The server may have given it this lease by now, which may be shorter; or it may have a lease that nobody counts on. */
    private void goesOn(Hold.Id id, long until) {
        if (locks.holds.with(id, Hold::isHeld)) {
            locks.watchdog.resume(id, until);
        } else {
            locks.holds.change(id, Hold::isAbandoned);
            locks.giveBackWhatIsLeftBehind(id, terms.leaseMs);
        }
    }

    /** Reports each lock of which the server says that it is not held. */
    private LostLock lost(List<Boolean> areHeld) {
        LostLock lost = null;
        for (int i = 0; i < ids.size(); i++) {
            if (!areHeld.get(i)) {
                lost = new LostLock(ids.get(i), LossReason.NOT_HELD, null);
                locks.watchdog.notHeld(ids.get(i), lost);
            }
        }
        return lost;
    }

    private LostLock lost(Throwable error) {
        LostLock lost = error instanceof LockLostException ? ((LockLostException) error).getLost() : null;
        if (lost != null) {
            ids.stream().filter(id -> id.name.equals(lost.getName())).forEach(id -> locks.watchdog.notHeld(id, lost));
        }
        return lost;
    }

    private void failIfOver() {
        if (isOver) {
            throw new IllegalMonitorStateException(name() + " was released or detached");
        }
    }

    @Override
    public String getName() {
        return name();
    }

    @Override
    public String name() {
        return ids.stream().map(id -> id.name).collect(Collectors.joining(","));
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
    public Duration remaining() {
        return Duration.ofMillis(
                ids.stream().mapToLong(locks.watchdog::remainingMs).min().orElse(0));
    }

    /** Of the first that is lost. */
    @Override
    public CompletableFuture<LostLock> loss() {
        return firstOf(ids.stream().map(locks::loss).collect(Collectors.toList()));
    }

    /** Cancelled when all of them are. */
    static CompletableFuture<LostLock> firstOf(List<CompletableFuture<LostLock>> each) {
        CompletableFuture<LostLock> first = new CompletableFuture<>();
        each.forEach(one -> one.whenComplete((lost, over) -> {
            if (lost != null) {
                first.complete(lost);
            } else if (each.stream().allMatch(CompletableFuture::isCancelled)) {
                first.cancel(false);
            }
        }));
        first.whenComplete((lost, over) -> each.forEach(one -> one.cancel(false)));
        return first;
    }

    @Override
    public CompletableFuture<LostLock> lost() {
        return locks.forService(loss());
    }

    @Override
    public LostLock lossByNow() {
        return reported != null ? reported
                : ids.stream().map(locks.watchdog::lossByNow).filter(Objects::nonNull).findFirst().orElse(null);
    }

    @Override
    public <T> T call(Callable<T> work) throws Exception {
        synchronized (this) {
            failIfOver();
        }
        return Guard.call(this, work);
    }

    @Override
    public synchronized void end(boolean isDone) {
        if (!isOver) {
            isOver = true;
            release(id -> locks.end(server, id));
        }
    }

    @Override
    public synchronized void unlock() {
        failIfOver();
        release(id -> locks.unlock(server, id));
        isOver = true;
    }

    /** All of them, also if one is lost. That a lock is not held is certain, and counts for more than a doubt. */
    private void release(Function<Hold.Id, CompletableFuture<Void>> way) {
        List<Throwable> failures = new ArrayList<>();
        each(id -> way.apply(id).handle((done, error) -> error == null ? null : Server.cause(error)))
                .join().stream().filter(Objects::nonNull).forEach(failures::add);
        Throwable failure = failures.stream().filter(IllegalMonitorStateException.class::isInstance).findFirst()
                .orElse(failures.isEmpty() ? null : failures.get(0));
        if (failure instanceof IllegalMonitorStateException && failure.getCause() == null && reported != null) {
            failure = new IllegalMonitorStateException(failure.getMessage());
            failure.initCause(new LockLostException(reported));
        }
        if (failure != null) {
            NativeLock.getUnwrapped(server, CompletableFuture.failedFuture(failure));
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
        return "HeldLock{" + name() + "}";
    }
}
