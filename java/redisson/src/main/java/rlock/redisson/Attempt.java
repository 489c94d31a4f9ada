package rlock.redisson;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.redisson.RedissonShutdownException;
import org.redisson.client.RedisException;
import org.redisson.client.RedisNodeNotFoundException;
import org.redisson.client.RedisTimeoutException;

/**
 * One attempt to acquire a lock, or several all or none: it tries once, then waits by a ticket.
 *
 * <p>An attempt is over when its outcome is complete. The caller can complete it too, by a cancellation or an interrupt.
 * A grant after that is released, so each step first checks whether a caller still wants it.
 *
 * <p><b>A wait asks for a short lease</b>: a machine that vanishes keeps the lock from the next waiter for that long, with
 * each of its waits.
 *
 * <p><b>A grant after a wait is the caller's at once</b>, until the end that came with the grant; the watchdog renews it
 * while the work runs. It is renewed before the work if the watchdog does not keep it, if too much of it is over, if
 * replicas have to confirm it, or if the server that granted it is not the master any more: with sentinels, an old master
 * goes on for seconds.
 *
 * <p><b>The waits of one holder for the same locks go one after the other</b>, since the server has one place for them.
 *
 * <p><b>The caller's time limit covers everything.</b> A silent server does not lengthen it: a grant that comes later is
 * released.
 */
final class Attempt<T> {
    /** How long a caller waits, and what it wants. */
    static final class Terms {
        /** 0: not at all; below 0: forever. */
        final long waitMs;
        final Hold.Lease lease;
        final boolean isFenced;
        /** The limit of permits; 0 for locks. */
        final int limit;

        Terms(long waitMs, Hold.Lease lease, boolean isFenced, int limit) {
            this.waitMs = Math.min(waitMs, Clock.FAR_MS);
            this.lease = lease;
            this.isFenced = isFenced;
            this.limit = limit;
        }
    }

    private static final long LEASE_OF_A_WAIT_MS = 3_000;

    /**
     * After this time a wait asks again, by the same ticket: so none lasts forever, whatever the server has forgotten.
     */
    private static final long ASKED_AGAIN_MS = 60_000;

    /** The server reports that the time is up. If it does not, the time is up here a little later. */
    private static final long GRACE_MS = 50;

    /** A request is sent again after its reply is lost, if the server answers another one within this time. */
    private static final long SIGN_OF_LIFE_MS = 500;

    private static final long PAUSE_MS = 50;

    /** These end a wait: its lock may be elsewhere now. */
    private static final String[] MOVED_ON = {"UNBLOCKED", "TRYAGAIN", "MOVED", "NOSESSION", "READONLY", "LOADING",
        "CLUSTERDOWN", "MASTERDOWN"};

    private final Server server;
    private final Locks locks;
    private final List<Hold.Id> ids;

    /** The key of one of the locks: all of them are at one place. */
    private final String key;
    private final Terms terms;
    private final Function<Grant, T> meaning;
    private final CompletableFuture<T> outcome = new CompletableFuture<>();

    /** When the next wait of this holder may begin. */
    private final CompletableFuture<Void> over = new CompletableFuture<>();
    private final long begin = System.nanoTime();
    private final long end;

    /** The node that was asked for the hold. What a server says counts only as long as it is the master. */
    private Server.Node asked;
    private Ticket ticket;
    private Clock.Timer limit;

    /** Whether a server has said that the lock is not free. */
    private volatile boolean isTaken;
    private boolean wasCutOff;
    private boolean isReentry;
    private boolean doubt;
    private int unreplicated;

    /**
     * Whether the outcome came from elsewhere while the attempt was under way: this holder's next one waits for its end.
     */
    private boolean isAbandoned;
    private boolean isEnded;
    private volatile boolean isHanded;

    /** Whether it may have sent anything. */
    private boolean hasBegun;

    /** @param meaning what the caller gets for a grant, or for null, if the lock was not free in time */
    private Attempt(Server server, Locks locks, List<Hold.Id> ids, Terms terms, Function<Grant, T> meaning) {
        this.server = server;
        this.locks = locks;
        this.ids = ids;
        key = ids.get(0).key;
        this.terms = terms;
        this.meaning = meaning;
        end = begin + Clock.ns(terms.waitMs);
    }

    /** @param ids of one holder; several only of plain locks */
    static <T> CompletableFuture<T> begin(
            Server server, Locks locks, List<Hold.Id> ids, Terms terms, Function<Grant, T> meaning) {
        Attempt<T> attempt = new Attempt<>(server, locks, ids, terms, meaning);
        attempt.begin();
        return attempt.outcome;
    }

    private void begin() {
        forEach(Hold::attemptBegins);
        CompletableFuture<Void> turn =
                terms.waitMs == 0 ? CompletableFuture.completedFuture(null) : locks.turn(ids, over);
        isTaken = !turn.isDone();
        limit = terms.waitMs > 0 ? server.after(terms.waitMs + GRACE_MS, this::isTooLate) : () -> { };
        outcome.whenComplete((result, error) -> {
            limit.cancel();
            Duration waited = Duration.ofNanos(System.nanoTime() - begin);
            ids.forEach(id -> locks.observers.waited(id.name, waited, error == null && isHanded));
            abandoned();
            over.complete(null);
        });
        turn.whenComplete((done, error) -> itsTurn());
    }

    private void itsTurn() {
        CompletableFuture<Void> settled = all(id -> locks.holds.with(id, hold -> {
            isReentry |= hold.isHeld();
            return hold.settled();
        })).thenApply(each -> null);
        // If that never ends, the caller is not kept here forever.
        CompletableFuture<Void> limited = settled.isDone() ? settled
                : server.limited(settled.copy(), LEASE_OF_A_WAIT_MS);
        limited.whenComplete((done, error) -> {
            doubt |= !settled.isDone();
            if (isStillWanted() && (terms.waitMs == 0 || !isCrowded() || !waitsAtOnce())) {
                tryOnce();
            }
        });
    }

    /** Does this for each of the locks. */
    private <R> CompletableFuture<List<R>> all(Function<Hold.Id, CompletableFuture<R>> does) {
        List<CompletableFuture<R>> each = ids.stream().map(does).collect(Collectors.toList());
        return CompletableFuture.allOf(each.toArray(new CompletableFuture<?>[0]))
                .thenApply(done -> each.stream().map(CompletableFuture::join).collect(Collectors.toList()));
    }

    private void forEach(Consumer<Hold> change) {
        ids.forEach(id -> locks.holds.change(id, change));
    }

    private boolean isCrowded() {
        return ids.stream().anyMatch(id -> locks.crowds.isCrowded(id.key));
    }

    private void isTooLate() {
        if (isTaken) {
            outcome.complete(meaning.apply(null));
        } else {
            outcome.completeExceptionally(new RedisTimeoutException(
                    "no answer within the " + terms.waitMs + " ms that " + key + " was waited for"));
        }
    }

    private synchronized boolean isStillWanted() {
        hasBegun = !isEnded;
        return hasBegun;
    }

    /**
     * What is granted from now on is released, as it was granted. A request of the same holder in between would be granted
     * on top of it, and the two could not be distinguished: so that request waits. An attempt that has sent nothing ends
     * here: it still waits for earlier ones itself, so a request behind it would wait forever.
     */
    private void abandoned() {
        synchronized (this) {
            if (isEnded) {
                return;
            }
            if (hasBegun) {
                isAbandoned = true;
                forEach(Hold::settlingBegins);
                return;
            }
            isEnded = true;
        }
        failed(false);
    }

    /** Notes how the attempt ended, and lets the next one go on. */
    private void ended(Consumer<Hold> how) {
        List<CompletableFuture<Void>> settled = new ArrayList<>();
        synchronized (this) {
            isEnded = true;
            forEach(hold -> {
                how.accept(hold);
                if (isAbandoned) {
                    settled.add(hold.settlingEnds());
                }
            });
        }
        settled.forEach(one -> one.complete(null));
    }

    /** Waits by a session that is open already, if there is one. */
    private boolean waitsAtOnce() {
        Session session = locks.sessions.openAt(server.node(key));
        ticket = session == null ? null : session.ticket();
        if (ticket != null) {
            ask();
        }
        return ticket != null;
    }

    /** A millisecond that has begun counts. */
    private long leftMs() {
        return TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime()) + 1;
    }

    private boolean isTimeUp() {
        return terms.waitMs >= 0 && end - System.nanoTime() <= 0;
    }

    private void tryOnce() {
        if (outcome.isDone()) {
            failed(false);
            return;
        }
        if (server.isShuttingDown()) {
            failed(new RedissonShutdownException("Redisson is shutdown"));
            return;
        }
        long sentAt = System.nanoTime();
        asked = server.node(key);
        Request request = Request.acquire(ids, terms.lease.ms, terms);
        server.once(key, request).whenComplete((reply, error) -> {
            if (error != null) {
                notTried(error);
            } else if (reply instanceof byte[]) {
                answered((byte[]) reply);
            } else if (isGranted(reply) && isTooLittle(sentAt + leaseNs(), terms.lease.ms)) {
                renew(new Grant(token(reply), null));
            } else if (isGranted(reply)) {
                granted(new Grant(token(reply), null), sentAt);
            } else if (isTimeUp()) {
                notInTime();
            } else {
                isTaken = true;
                openSession();
            }
        });
    }

    /** Redisson does not notice that a connection was cut, and waits in vain. If the server is well, it is asked again. */
    private void notTried(Throwable error) {
        Server.Node node = server.node(key);
        if (node == null || isTimeUp() || wasCutOff || !Server.isUnanswered(error) || server.isShuttingDown()) {
            failed(error);
            return;
        }
        wasCutOff = true;
        doubt = true;
        server.limited(locks.sessions.at(node).opened.copy(), SIGN_OF_LIFE_MS)
                .whenComplete((session, none) -> {
                    ticket = none == null && session.isAnswering() ? session.ticket() : null;
                    if (ticket != null) {
                        ask();
                    } else {
                        failed(error);
                    }
                });
    }

    /** Whether too much of a lease is over to begin work. */
    private static boolean isTooLittle(long until, long leaseMs) {
        return until - System.nanoTime() < Clock.ns(leaseMs) / 3 * 2;
    }

    /** A re-entry asks for its whole lease, so that it does not shorten the hold. */
    private long leaseOfAWaitMs() {
        return isReentry ? terms.lease.ms : Math.min(terms.lease.ms, LEASE_OF_A_WAIT_MS);
    }

    private long leaseNs() {
        return Clock.ns(terms.lease.ms);
    }

    private static boolean isGranted(Object reply) {
        return reply == null || reply instanceof List && ((List<?>) reply).get(0) == null;
    }

    private static Long token(Object reply) {
        return reply == null ? null : ofOne(((List<?>) reply).get(1));
    }

    /** Null for several locks, which have several tokens. */
    private static Long ofOne(Object token) {
        return token instanceof Long ? (Long) token : null;
    }

    private void openSession() {
        Server.Node node = server.node(key);
        if (node == null) {
            failed(new RedisNodeNotFoundException("entry for " + key + " hasn't been discovered yet"));
            return;
        }
        locks.sessions.at(node).opened.whenComplete((session, error) -> {
            ticket = error == null ? session.ticket() : null;
            if (ticket != null) {
                ask();
            } else if (error != null && Server.isReply(error, "ERR", "NOPERM", "QUEUEFULL", "NOAUTH", "OOM")) {
                failed(error);
            } else {
                againLater();
            }
        });
    }

    /** Begins again, with a command that finds the server or fails after Redisson's own time limits. */
    private void againLater() {
        if (isTimeUp()) {
            notInTime();
        } else {
            server.later(PAUSE_MS, this::tryOnce);
        }
    }

    /** Asks by the same ticket as before, so that a wait is not queued twice. */
    private void ask() {
        if (outcome.isDone()) {
            withdraw();
            return;
        }
        long waitMs = terms.waitMs < 0 ? 0 : Math.max(1, leftMs());
        Request request = Request.acquire(ids, leaseOfAWaitMs(), terms)
                .waitingFor(waitMs, ticket.session.name, ticket.name);
        long sentAt = System.nanoTime();
        send(ids.get(0), request).whenComplete((reply, error) -> {
            if (error != null) {
                notAsked(error);
            } else if ("WAITING".equals(reply)) {
                waiting();
            } else {
                // The ticket may have got a grant already, and this one came on top of it.
                doubt |= ticket.event.isDone();
                ticket.close();
                if (reply instanceof byte[]) {
                    answered((byte[]) reply);
                } else if (isGranted(reply)) {
                    grantedAfterAWait(
                            new Grant(token(reply), null), sentAt + Clock.ns(leaseOfAWaitMs()));
                } else {
                    notInTime();
                }
            }
        });
    }

    /** Sends what may be sent twice. If it was, that leaves a doubt. */
    private CompletableFuture<Object> send(Hold.Id id, Request request) {
        return locks.repeatedly(server, id, request, () -> doubt = true);
    }

    private void notAsked(Throwable error) {
        if (Server.isReply(error, "NOSESSION")) {
            // What was granted meanwhile may never be reported.
            doubt = true;
            ticket.session.over(error);
            againLater();
        } else if (Server.isReply(error)) {
            ticket.close();
            failed(error);
        } else if (!wasCutOff && !isTimeUp() && ticket.session.isAnswering()) {
            wasCutOff = true;
            ask();
        } else {
            outcome.completeExceptionally(Server.cause(error));
            withdraw();
        }
    }

    private void waiting() {
        isTaken = true;
        ids.forEach(id -> locks.crowds.waits(id.key));
        long limitMs = terms.waitMs < 0 ? ASKED_AGAIN_MS : Math.min(ASKED_AGAIN_MS, leftMs() + GRACE_MS);
        CompletableFuture<Void> late = new CompletableFuture<>();
        Clock.Timer timer = server.after(Math.max(1, limitMs), () -> late.complete(null));
        CompletableFuture.anyOf(ticket.event, outcome, late).whenComplete((any, error) -> {
            timer.cancel();
            if (outcome.isDone()) {
                withdraw();
            } else if (ticket.event.isDone()) {
                handle(ticket.event.join());
            } else if (isTimeUp()) {
                outcome.complete(meaning.apply(null));
                withdraw();
            } else {
                ask();
            }
        });
    }

    private void handle(Ticket.Event event) {
        ticket.close();
        switch (event.outcome) {
            case GRANTED:
                grantedAfterAWait(new Grant(ofOne(event.value), null), event.until);
                break;
            case ANSWERED:
                // The event has no value, so ask for it. If the answer is gone already, this caller leads or waits again.
                tryOnce();
                break;
            case TIMEOUT:
                notInTime();
                break;
            case SESSION_OVER:
                // What was granted meanwhile may never be reported.
                doubt = true;
                againLater();
                break;
            default:
                refused(new RedisException(String.valueOf(event.value)));
        }
    }

    private void refused(RedisException error) {
        if (Server.isReply(error, MOVED_ON)) {
            againLater();
        } else {
            failed(error);
        }
    }

    /** Takes the ticket back, and releases what it was granted meanwhile. */
    private void withdraw() {
        ticket.close();
        ticket.session.cancel(ticket).whenComplete((became, error) -> {
            if (Session.GRANTED.equals(became)) {
                all(id -> server.once(id.key, Request.release(id, false, 0)))
                        .whenComplete((released, failure) -> failed(failure != null));
            } else {
                // The server knows neither a ticket that was granted and acknowledged, nor one that never waited.
                failed(!Session.WITHDRAWN.equals(became));
            }
        });
    }

    /** @param until when the granted lease ends */
    private void grantedAfterAWait(Grant grant, long until) {
        asked = ticket.session.node;
        boolean isWhole = terms.lease.isKept || leaseOfAWaitMs() == terms.lease.ms;
        if (!isWhole || isTooLittle(until, leaseOfAWaitMs()) || server.isConfirming() || !server.isAt(asked, key)) {
            renew(grant);
        } else {
            held(until);
            hand(grant, null);
        }
    }

    /** Restarts the lease in full length, if the master says that the lock is held. */
    private void renew(Grant grant) {
        long sentAt = System.nanoTime();
        asked = server.node(key);
        all(id -> send(id, Request.renew(id, terms.lease.ms))).whenComplete((replies, error) -> {
            if (error != null) {
                doubt = true;
                failed(error);
            } else if (replies.stream().allMatch(Server::isRenewed)) {
                granted(grant, sentAt);
            } else {
                notHeld();
            }
        });
    }

    /** If there are several locks, some may be held. */
    private void notHeld() {
        if (ids.size() == 1) {
            tryOnce();
        } else {
            releaseAndTryAgain(0);
        }
    }

    private void releaseAndTryAgain(long pauseMs) {
        held(System.nanoTime());
        all(id -> locks.release(server, id)).whenComplete((released, failure) -> {
            beginsAgain();
            server.later(pauseMs, this::tryOnce);
        });
    }

    private void granted(Grant grant, long sentAt) {
        limit.cancel();
        all(id -> server.replicated(id, terms.lease.ms)).whenComplete((areHeld, error) -> {
            if (error == null && !server.isAt(asked, key)) {
                // Another server is the master now, and may know nothing of the grant.
                renew(grant);
            } else if (error == null && areHeld.contains(false)) {
                notHeld();
            } else if (error != null && Server.isNotReplicated(error) && !outcome.isDone()
                    && unreplicated++ < server.retryAttempts()) {
                releaseAndTryAgain(server.retryDelayMs(unreplicated));
            } else {
                // A grant that no replica has does not lengthen a hold that was there before.
                held(error == null ? sentAt + leaseNs() : System.nanoTime());
                hand(grant, error);
            }
        });
    }

    private void held(long until) {
        ended(hold -> hold.granted(terms.lease, until, doubt, terms.limit == 0));
        doubt = false;
    }

    private synchronized void beginsAgain() {
        isEnded = false;
        isAbandoned = false;
        forEach(Hold::attemptBegins);
    }

    private void hand(Grant grant, Throwable error) {
        isHanded = error == null;
        over.complete(null);
        if (error == null) {
            // Before the caller's callbacks, which run inside of complete and may outlast the lease of a wait.
            ids.forEach(locks.watchdog::watch);
            if (outcome.complete(meaning.apply(grant))) {
                return;
            }
        }
        all(id -> locks.release(server, id)).whenComplete((released, failure) -> {
            if (error != null) {
                outcome.completeExceptionally(Server.cause(error));
            }
        });
    }

    private void notInTime() {
        failed(false);
        outcome.complete(meaning.apply(null));
    }

    /** Nothing is held. */
    private void answered(byte[] answer) {
        failed(false);
        outcome.complete(meaning.apply(new Grant(null, answer)));
    }

    private void failed(Throwable error) {
        failed(Server.isUnanswered(error));
        outcome.completeExceptionally(Server.cause(error));
    }

    private void failed(boolean withDoubt) {
        ended(hold -> hold.attemptFailed(doubt || withDoubt));
        ids.forEach(id -> locks.releaseLeftovers(id, terms.lease.ms));
        over.complete(null);
    }
}
