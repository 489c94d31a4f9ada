package rlock.redisson;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.redisson.client.RedisConnectionException;

/** What the locks of one client share: its holds, its watchdog, and a session for each node. */
final class Locks {
    /** The pause between tries to release what may have been left behind, until one succeeds or its lease has ended. */
    private static final long RELEASE_AGAIN_MS = 500;

    final Holds holds = new Holds();
    final Crowds crowds = new Crowds();
    final Flights flights;
    final Sessions sessions;
    final Watchdog watchdog;
    final Server server;
    final Observers observers;

    /** The end of the last wait of each holder for the same locks. */
    private final ConcurrentHashMap<List<Object>, CompletableFuture<Void>> turns = new ConcurrentHashMap<>();

    /** The locks by their options. */
    final Map<RedissonLocks.Options, NativeLocks> views = new HashMap<>();

    Locks(Server server) {
        if (server.watchdogMs() <= 0) {
            throw new IllegalArgumentException("lockWatchdogTimeout must be above 0: " + server.watchdogMs());
        }
        this.server = server;
        observers = new Observers(server.forListeners());
        sessions = new Sessions(server);
        watchdog = new Watchdog(server, holds, this::lost);
        server.reportConnections(watchdog, Watchdog::reconnected);
        flights = new Flights(this);
        server.endClockWithClient();
    }

    /**
     * Completes when the earlier waits of this holder for these locks are over: the server has one place for all of them,
     * and the later one would take it.
     *
     * @param end of this wait
     */
    CompletableFuture<Void> turn(List<Hold.Id> ids, CompletableFuture<Void> end) {
        List<Object> place = List.of(ids.get(0).holder, ids.stream().map(id -> id.key).collect(Collectors.toSet()));
        CompletableFuture<Void> before = new CompletableFuture<>();
        CompletableFuture<Void> both = CompletableFuture.allOf(before, end);
        CompletableFuture<Void> last = turns.put(place, both);
        both.whenComplete((done, error) -> turns.remove(place, both));
        if (last == null) {
            before.complete(null);
        } else {
            last.whenComplete((done, error) -> before.complete(null));
        }
        return before;
    }

    private void lost(LostLock lost, List<CompletableFuture<LostLock>> watchers) {
        watchers.forEach(watcher -> watcher.complete(lost));
        observers.lost(lost);
    }

    /** Completes on the thread that notices the loss; at once if nothing is held. */
    CompletableFuture<LostLock> loss(Hold.Id id) {
        CompletableFuture<LostLock> loss = new CompletableFuture<>();
        if (!holds.with(id, hold -> hold.tells(loss))) {
            loss.complete(new LostLock(id, LossReason.ENDED, null));
        }
        loss.whenComplete((lost, over) -> holds.with(id, hold -> hold.tellsNoMore(loss)));
        return loss;
    }

    /** The same loss, on a thread where the service's code may block: the thread that notices a loss must not block. */
    CompletableFuture<LostLock> forService(CompletableFuture<LostLock> loss) {
        return Watched.firstOf(List.of(loss), server.forListeners());
    }

    /** One unlock. Fails with an IllegalMonitorStateException if this holder holds nothing. */
    CompletableFuture<Void> release(Server by, Hold.Id id) {
        return release(id, false, request -> send(by, id, request));
    }

    /** The same. Fails as in Redisson if no replica knows of the release: the lock is released all the same. */
    CompletableFuture<Void> unlock(Server by, Hold.Id id) {
        return release(id, false, confirmed(by, id));
    }

    /** An unlock after which the hold is over, whatever the server says: a release in doubt goes on in the background. */
    CompletableFuture<Void> end(Server by, Hold.Id id) {
        return release(id, true, confirmed(by, id));
    }

    /**
     * Stores the answer for the lock of this holder, and ends the hold. Without a reply the request is sent again for a
     * while. Then this fails as in doubt, and the hold is released in the background.
     */
    CompletableFuture<Void> answer(Hold.Id id, byte[] value, long keepMs) {
        Request answer = Request.answer(id, value, keepMs);
        long until = System.nanoTime() + Clock.ns(Math.min(id.leaseMs, 2 * server.timeoutMs()));
        return release(id, true, instead ->
                orElse(send(server, id, answer), error -> answerAgain(id, answer, until, error)));
    }

    /** @param doubt stays if the holder holds nothing now: the answer may have been stored, or lost with the lock */
    private CompletableFuture<Object> answerAgain(Hold.Id id, Request answer, long until, Throwable doubt) {
        return orElse(surely(id, answer), error -> {
            if (System.nanoTime() - until >= 0 || server.isShuttingDown()) {
                return CompletableFuture.failedFuture(doubt);
            }
            CompletableFuture<Void> pause = new CompletableFuture<>();
            server.later(RELEASE_AGAIN_MS, () -> pause.complete(null));
            return pause.thenCompose(over -> answerAgain(id, answer, until, doubt));
        }).thenCompose(reply ->
                reply == null ? CompletableFuture.failedFuture(doubt) : CompletableFuture.completedFuture(reply));
    }

    private Function<Request, CompletableFuture<Object>> confirmed(Server by, Hold.Id id) {
        return !by.isConfirming() ? request -> send(by, id, request)
                : request -> by.onceReplicated(id.key, request, () -> send(by, id, request));
    }

    /** By the connection of the waits, if there is one: then others are waiting for it. */
    private CompletableFuture<Object> send(Server by, Hold.Id id, Request request) {
        Session session = sessions.openAt(by.node(id.key));
        CompletableFuture<Object> quick = session == null ? null : session.shortcut(request);
        return quick == null ? by.once(id.key, request) : orRedirected(quick, by, id, request);
    }

    private static CompletableFuture<Object> orRedirected(
            CompletableFuture<Object> sent, Server by, Hold.Id id, Request request) {
        return sent.handle((reply, error) ->
                Server.isRedirection(error) ? by.once(id.key, request) : sent).thenCompose(answer -> answer);
    }

    private CompletableFuture<Void> release(
            Hold.Id id, boolean isOver, Function<Request, CompletableFuture<Object>> way) {
        return way.apply(holds.with(id, hold -> hold.releaseBegins(id))).handle((reply, error) -> {
            Throwable cause = error == null ? null : Server.cause(error);
            // A lock of another kind is a loss only if this holder had counted on its own lock.
            boolean isOverwritten = error != null && (Server.isReply(error, "WRONGTYPE")
                    || Server.isOverwritten(error) && holds.with(id, Hold::isHeld));
            if (isOverwritten || error == null && reply == null) {
                throw notHeld(id, cause);
            } else if (error == null || Server.isNotReplicated(error)) {
                given(id, Hold::released);
            } else {
                releaseFailed(id, error, isOver);
            }
            if (error != null) {
                throw new CompletionException(cause);
            }
            return null;
        });
    }

    /** @param cause what the server says is there instead; null if it says that there is nothing */
    private IllegalMonitorStateException notHeld(Hold.Id id, Throwable cause) {
        LostLock lost =
                new LostLock(id, cause == null ? LossReason.NOT_HELD : LossReason.OVERWRITTEN, cause);
        boolean[] isCountedOn = {false};
        List<CompletableFuture<LostLock>> watchers = holds.with(id, hold -> {
            isCountedOn[0] = hold.isHeld();
            List<CompletableFuture<LostLock>> all = hold.takeWatchers();
            hold.releasedNothing();
            return all;
        });
        watchers.forEach(watcher -> watcher.complete(lost));
        IllegalMonitorStateException error = new IllegalMonitorStateException("attempt to unlock lock, not locked by "
                + "current thread by node id: " + server.clientId() + " thread-id: " + id.thread);
        error.initCause(isCountedOn[0] ? new LockLostException(lost) : cause);
        return error;
    }

    /** One hold less. It may have been the last one. */
    void given(Hold.Id id, Consumer<Hold> change) {
        long heldNs = holds.with(id, hold -> {
            boolean wasHeld = hold.isHeld();
            change.accept(hold);
            return wasHeld && !hold.isHeld() ? System.nanoTime() - hold.since() : -1;
        });
        if (heldNs >= 0) {
            observers.held(id.name, Duration.ofNanos(heldNs));
        }
    }

    /**
     * Sends what can be sent twice: by the shortcut, by another shortcut if that was cut, and then by Redisson's own way.
     *
     * @param lost called if the request may have been executed although its reply was lost
     */
    CompletableFuture<Object> repeatedly(Server by, Hold.Id id, Request request, Runnable lost) {
        Session session = sessions.openAt(by.node(id.key));
        if (session == null) {
            return by.once(id.key, request);
        }
        return orElse(session.surely(request), error -> {
            if (!Server.isReply(error)) {
                lost.run();
            }
            return !isCut(error) ? by.once(id.key, request)
                    : orElse(session.surely(request), again -> by.once(id.key, request));
        });
    }

    private static boolean isCut(Throwable error) {
        return Server.cause(error) instanceof RedisConnectionException;
    }

    /** Tries another way if the first one brings no answer, or only a redirection. */
    private static CompletableFuture<Object> orElse(
            CompletableFuture<Object> one, Function<Throwable, CompletableFuture<Object>> other) {
        return one.handle((reply, error) -> error != null && (Server.isRedirection(error) || !Server.isReply(error))
                ? other.apply(error) : one).thenCompose(answer -> answer);
    }

    private void releaseFailed(Hold.Id id, Throwable error, boolean isOver) {
        given(id, isOver || Server.isUnanswered(error) ? Hold::releaseUnanswered : Hold::releaseRefused);
        releaseLeftovers(id, server.watchdogMs());
    }

    /** Releases what a request without an answer may have got, if this holder has nothing else there. */
    void releaseLeftovers(Hold.Id id, long leaseMs) {
        releaseHold(id, System.nanoTime() + Clock.ns(leaseMs));
    }

    /** Releases all of it: that can be repeated, and is right however many of the requests were executed. */
    private void releaseHold(Hold.Id id, long until) {
        boolean begins = holds.with(id, hold -> {
            boolean isLeft = hold.isLeftBehind();
            if (isLeft) {
                hold.settlingBegins();
            }
            return isLeft;
        });
        if (!begins) {
            return;
        }
        surely(id, Request.release(id, true, 0)).whenComplete((reply, error) -> {
            boolean isRefused = error != null && Server.isReply(error, "WRONG", "ERR", "NOPERM");
            boolean goesOn = error != null && !isRefused && System.nanoTime() - until < 0 && !server.isShuttingDown();
            holds.with(id, hold -> {
                if (!goesOn) {
                    hold.markReleased();
                }
                return hold.settlingEnds();
            }).complete(null);
            if (goesOn) {
                server.after(RELEASE_AGAIN_MS, () -> releaseHold(id, until));
            }
        });
    }

    /** Sends by the shortcut, since the reason for this may be a cut connection that Redisson does not notice. */
    private CompletableFuture<Object> surely(Hold.Id id, Request request) {
        Server.Node node = server.node(id.key);
        CompletableFuture<Session> session =
                node == null ? CompletableFuture.completedFuture(null) : sessions.at(node).opened;
        return orRedirected(session.handle((open, none) ->
                open == null ? server.once(id.key, request) : open.surely(request)).thenCompose(answer -> answer),
                server, id, request);
    }
}
