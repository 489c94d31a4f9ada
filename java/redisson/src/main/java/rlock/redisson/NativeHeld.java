package rlock.redisson;

import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * A hold by the RLOCK commands that no thread has. Each hold has a holder of its own, so that it is not taken for the re-entry
 * of a hold that was handed on.
 */
final class NativeHeld extends AbstractHeld {
    /** No thread has such an id, and a service hardly gives one to {@code lockAsync}. */
    private static final long NUMBER_MIN = 1L << 62;

    private final Server server;
    private final Locks locks;
    private final List<Hold.Id> ids;

    /** The loss as it was reported. */
    private volatile LostLock reported;

    private NativeHeld(Server server, Locks locks, List<Hold.Id> ids, Handover terms) {
        super(ids.stream().map(id -> id.name).collect(Collectors.joining(",")), terms);
        this.server = server;
        this.locks = locks;
        this.ids = ids;
    }

    private NativeHeld begun() {
        loss().thenAccept(lost -> reported = lost);
        return this;
    }

    /** A number in place of a thread's id. */
    static long number() {
        return ThreadLocalRandom.current().nextLong(NUMBER_MIN, Long.MAX_VALUE);
    }

    /** @return null if it was not granted in time */
    static CompletableFuture<HeldLock> take(Server server, Locks locks, List<Hold.Id> ids, Attempt.Terms terms) {
        Hold.Id first = ids.get(0);
        List<String> keys = ids.stream().map(id -> id.key).collect(Collectors.toList());
        return Attempt.begin(server, locks, ids, terms, grant -> grant == null ? null : new NativeHeld(server, locks, ids,
                new Handover(first.side, first.leaseMs, terms.limit, grant.token == null ? List.of() : List.of(grant.token),
                        first.holder, keys)).begun());
    }

    /** Takes over what another process has detached. */
    static CompletableFuture<HeldLock> adopt(Server server, Locks locks, Handover terms) {
        long number = number();
        List<Hold.Id> ids = terms.keys.stream()
                .map(key -> Hold.Id.adopted(terms.side, key, terms.holder, number, terms.leaseMs)).collect(Collectors.toList());
        NativeHeld held = new NativeHeld(server, locks, ids, terms);
        return held.each(held::adopted).thenApply(untils -> {
            for (int i = 0; i < ids.size(); i++) {
                long until = untils.get(i);
                // The release ends all of it, however often and by whatever thread it was acquired.
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
        return renewed(id, terms.leaseMs).thenCompose(done -> asked == null || server.isAt(asked, id.key)
                ? CompletableFuture.completedFuture(sentAt + Clock.ns(terms.leaseMs)) : adopted(id));
    }

    /** Confirmed by replicas, as a grant is. A loss is reported if this process still counts on the hold. */
    private CompletableFuture<Void> renewed(Hold.Id id, long leaseMs) {
        return locks.repeatedly(server, id, Request.renew(id, leaseMs), () -> { }).thenCompose(reply ->
                Server.isRenewed(reply) ? server.replicated(id, leaseMs) : CompletableFuture.completedFuture(false))
                .handle((isHeld, error) -> {
                    if (error == null && isHeld) {
                        return null;
                    } else if (error != null && !Server.isOverwritten(error)) {
                        throw new CompletionException(Server.cause(error));
                    }
                    LostLock lost = new LostLock(
                            id, error == null ? LossReason.NOT_HELD : LossReason.OVERWRITTEN, Server.cause(error));
                    locks.watchdog.notHeld(id, lost);
                    throw new LockLostException(lost);
                });
    }

    /** Does this for each lock. If one has failed, this fails when all are done. */
    private <R> CompletableFuture<List<R>> each(Function<Hold.Id, CompletableFuture<R>> does) {
        List<CompletableFuture<R>> all = ids.stream().map(does).collect(Collectors.toList());
        return CompletableFuture.allOf(all.toArray(new CompletableFuture<?>[0]))
                .thenApply(done -> all.stream().map(CompletableFuture::join).collect(Collectors.toList()));
    }

    @Override
    void handOn(long withinMs) {
        long[] sentAt = {0};
        NativeLock.getUnwrapped(server, each(id -> locks.holds.with(id, Hold::pauseRenewals)).thenCompose(areOver -> {
            sentAt[0] = System.nanoTime();
            return each(id -> renewed(id, withinMs));
        }).handle((done, error) -> {
            if (error == null && ids.stream().allMatch(id -> locks.holds.with(id, Hold::isHeld))) {
                ids.forEach(id -> locks.given(id, Hold::isGone));
                return null;
            }
            ids.forEach(id -> goesOn(id, sentAt[0] + Clock.ns(withinMs)));
            throw error != null ? new CompletionException(Server.cause(error)) : new LockLostException(lossIfHeld());
        }));
    }

    /** The server may have set this lease, which may be shorter; or it may have a hold that this client does not count on. */
    private void goesOn(Hold.Id id, long until) {
        if (locks.holds.with(id, Hold::isHeld)) {
            locks.watchdog.resume(id, until);
        } else {
            locks.holds.change(id, Hold::isAbandoned);
            locks.releaseLeftovers(id, terms.leaseMs);
        }
    }

    @Override
    public Duration remaining() {
        return Duration.ofMillis(
                ids.stream().mapToLong(locks.watchdog::remainingMs).min().orElse(0));
    }

    /** The loss of the first lock that is lost. */
    @Override
    public CompletableFuture<LostLock> loss() {
        return Watched.firstOf(ids.stream().map(locks::loss).collect(Collectors.toList()), Runnable::run);
    }

    @Override
    public CompletableFuture<LostLock> lost() {
        return locks.forService(loss());
    }

    @Override
    LostLock lossIfHeld() {
        return reported != null ? reported
                : ids.stream().map(locks.watchdog::lossByNow).filter(Objects::nonNull).findFirst().orElse(null);
    }

    /** Releases all of them, also if one is lost. That a lock is not held is certain, so it counts more than a doubt. */
    @Override
    void release(boolean isForGood) {
        Throwable failure = each(id -> (isForGood ? locks.end(server, id) : locks.unlock(server, id))
                .handle((done, error) -> Server.cause(error))).join().stream().filter(Objects::nonNull)
                .min(Comparator.comparing(error -> !(error instanceof IllegalMonitorStateException))).orElse(null);
        if (failure instanceof IllegalMonitorStateException && failure.getCause() == null && reported != null) {
            failure = new IllegalMonitorStateException(failure.getMessage());
            failure.initCause(new LockLostException(reported));
        }
        if (failure != null) {
            NativeLock.getUnwrapped(server, CompletableFuture.failedFuture(failure));
        }
    }
}
