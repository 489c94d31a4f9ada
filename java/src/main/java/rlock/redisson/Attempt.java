package rlock.redisson;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;
import org.redisson.RedissonShutdownException;
import org.redisson.client.RedisException;
import org.redisson.client.RedisNodeNotFoundException;

/**
 * One attempt to acquire a lock: tried once, then waited for by a ticket.
 *
 * <p>It is over when its outcome is, by whomever: also when the caller cancels that, or is interrupted. What comes
 * after is given back, so each step looks first whether anybody still wants it.
 *
 * <p><b>A wait asks for a short lease.</b> A machine that is gone without a word keeps the lock from the next one for
 * as long as that, and each of its waits does. What is granted after a wait is renewed to its whole lease, and is the
 * caller's only when the server has said that it was still held.
 */
final class Attempt<T> {
    /** How long a caller waits, and what it wants. */
    static final class Terms {
        /** 0: not at all; below: for ever. */
        final long waitMs;
        final Hold.Lease lease;
        final boolean isFenced;

        Terms(long waitMs, Hold.Lease lease, boolean isFenced) {
            this.waitMs = waitMs;
            this.lease = lease;
            this.isFenced = isFenced;
        }
    }

    private static final long LEASE_OF_A_WAIT_MS = 3_000;

    /**
     * A wait is asked for again, by the same ticket, each time: so none lasts for ever, whatever has been forgotten.
     */
    private static final long ASKED_AGAIN_MS = 60_000;

    /** The server says itself that the time is up. If it does not, it is up here a little later. */
    private static final long GRACE_MS = 50;

    private static final long PAUSE_MS = 50;

    /** With these a wait ends whose lock may be elsewhere by now. */
    private static final String[] MOVED_ON = {"UNBLOCKED", "TRYAGAIN", "MOVED", "NOSESSION", "READONLY", "LOADING",
        "CLUSTERDOWN", "MASTERDOWN"};

    private final Server server;
    private final Locks locks;
    private final Hold.Id id;
    private final Terms terms;
    private final Function<Grant, T> meaning;
    private final CompletableFuture<T> outcome = new CompletableFuture<>();
    private final long end;

    /** Who is asked for the hold. What a server says counts only as long as it is the master. */
    private Server.Node asked;
    private Ticket ticket;
    private boolean doubt;
    private int unreplicated;

    /**
     * Whether its outcome came from elsewhere while it was under way: the next one of this holder waits for its end.
     */
    private boolean isAbandoned;
    private boolean isEnded;

    /** Whether it may have sent anything. */
    private boolean hasBegun;

    /** @param meaning what the caller is told of a grant, and of null: that it was not free in time */
    private Attempt(Server server, Locks locks, Hold.Id id, Terms terms, Function<Grant, T> meaning) {
        this.server = server;
        this.locks = locks;
        this.id = id;
        this.terms = terms;
        this.meaning = meaning;
        end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(terms.waitMs);
    }

    static <T> CompletableFuture<T> begin(
            Server server, Locks locks, Hold.Id id, Terms terms, Function<Grant, T> meaning) {
        Attempt<T> attempt = new Attempt<>(server, locks, id, terms, meaning);
        attempt.begin();
        return attempt.outcome;
    }

    private void begin() {
        CompletableFuture<Void> settled = locks.holds.with(id, hold -> {
            hold.attemptBegins();
            return hold.settled();
        });
        outcome.whenComplete((result, error) -> abandoned());
        // Whatever keeps that from its end keeps nobody here for ever.
        CompletableFuture<Void> limited = settled.isDone() ? settled
                : settled.copy().completeOnTimeout(null, LEASE_OF_A_WAIT_MS, TimeUnit.MILLISECONDS);
        limited.whenComplete((done, error) -> {
            doubt |= !settled.isDone();
            if (isStillWanted() && (terms.waitMs == 0 || !locks.crowds.isCrowded(id.key) || !waitsAtOnce())) {
                tryOnce();
            }
        });
    }

    private synchronized boolean isStillWanted() {
        hasBegun = !isEnded;
        return hasBegun;
    }

    /**
     * What it is granted from now on is given back, as it was granted. A request of the same holder in between would be
     * granted on top of it, and nobody could tell the two apart. One that has sent nothing ends here: it waits for those
     * before it itself, so whoever waited for it would wait for ever.
     */
    private void abandoned() {
        synchronized (this) {
            if (isEnded) {
                return;
            }
            if (hasBegun) {
                isAbandoned = true;
                locks.holds.with(id, hold -> {
                    hold.settlingBegins();
                    return null;
                });
                return;
            }
            isEnded = true;
        }
        failed(false);
    }

    /** Notes how it ended, and lets the next one go on. */
    private void ended(Consumer<Hold> how) {
        CompletableFuture<Void> settled;
        synchronized (this) {
            isEnded = true;
            settled = locks.holds.with(id, hold -> {
                how.accept(hold);
                return isAbandoned ? hold.settlingEnds() : null;
            });
        }
        if (settled != null) {
            settled.complete(null);
        }
    }

    /** By a session that is there already. */
    private boolean waitsAtOnce() {
        Session session = locks.sessions.openAt(server.node(id.key));
        ticket = session == null ? null : session.ticket();
        if (ticket != null) {
            ask();
        }
        return ticket != null;
    }

    /** The one that has begun counts. */
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
        asked = server.node(id.key);
        Request request = Request.acquire(id, terms.lease.ms, terms.isFenced);
        server.once(id.key, request).whenComplete((reply, error) -> {
            if (error != null) {
                failed(error);
            } else if (isGranted(reply) && System.nanoTime() - sentAt > leaseNs() / 3) {
                // Too much of it is over to begin with.
                renew(new Grant(token(reply)));
            } else if (isGranted(reply)) {
                granted(new Grant(token(reply)), sentAt);
            } else if (isTimeUp()) {
                notInTime();
            } else {
                openSession();
            }
        });
    }

    private long leaseNs() {
        return TimeUnit.MILLISECONDS.toNanos(terms.lease.ms);
    }

    private static boolean isGranted(Object reply) {
        return reply == null || reply instanceof List && ((List<?>) reply).get(0) == null;
    }

    private static Long token(Object reply) {
        return reply == null ? null : (Long) ((List<?>) reply).get(1);
    }

    private void openSession() {
        Server.Node node = server.node(id.key);
        if (node == null) {
            failed(new RedisNodeNotFoundException("entry for " + id.key + " hasn't been discovered yet"));
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

    /** From the beginning: with a command that finds the server, or says why not after Redisson's own time limits. */
    private void againLater() {
        if (isTimeUp()) {
            notInTime();
        } else {
            Server.later(PAUSE_MS, this::tryOnce);
        }
    }

    /** By the same ticket as before: what waits already is not queued twice. */
    private void ask() {
        if (outcome.isDone()) {
            withdraw();
            return;
        }
        long waitMs = terms.waitMs < 0 ? 0 : Math.max(1, leftMs());
        Request request = Request.acquire(id, Math.min(terms.lease.ms, LEASE_OF_A_WAIT_MS), terms.isFenced)
                .waitingFor(waitMs, ticket.session.name, ticket.name);
        send(request).whenComplete((reply, error) -> {
            if (error != null) {
                notAsked(error);
            } else if ("WAITING".equals(reply)) {
                waiting();
            } else {
                // It may have been told meanwhile of a grant that this one came on top of.
                doubt |= ticket.told.isDone();
                ticket.close();
                if (isGranted(reply)) {
                    renew(new Grant(token(reply)));
                } else {
                    notInTime();
                }
            }
        });
    }

    /** What can be sent twice, and leaves a doubt if it was. */
    private CompletableFuture<Object> send(Request request) {
        return locks.send(server, id, request, error -> {
            boolean isLost = !Server.isReply(error);
            doubt |= isLost;
            return isLost;
        });
    }

    private void notAsked(Throwable error) {
        if (Server.isReply(error, "NOSESSION")) {
            ticket.session.over(error);
            againLater();
        } else if (Server.isReply(error)) {
            ticket.close();
            failed(error);
        } else {
            outcome.completeExceptionally(Server.cause(error));
            withdraw();
        }
    }

    private void waiting() {
        locks.crowds.waits(id.key);
        long limitMs = terms.waitMs < 0 ? ASKED_AGAIN_MS : Math.min(ASKED_AGAIN_MS, leftMs() + GRACE_MS);
        CompletableFuture<Void> limit = new CompletableFuture<>();
        Server.Timer timer = server.after(Math.max(1, limitMs), () -> limit.complete(null));
        CompletableFuture.anyOf(ticket.told, outcome, limit).whenComplete((any, error) -> {
            timer.cancel();
            if (outcome.isDone()) {
                withdraw();
            } else if (ticket.told.isDone()) {
                told(ticket.told.join());
            } else if (isTimeUp()) {
                outcome.complete(meaning.apply(null));
                withdraw();
            } else {
                ask();
            }
        });
    }

    private void told(Ticket.Event event) {
        ticket.close();
        switch (event.outcome) {
            case GRANTED:
                renew(new Grant((Long) event.value));
                break;
            case TIMEOUT:
                notInTime();
                break;
            case SESSION_OVER:
                // What was granted meanwhile may never be told.
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

    /** Takes the ticket back, and then whatever it may have got that nobody was told of. */
    private void withdraw() {
        ticket.close();
        // Not found is also what was granted, and acknowledged before anybody here looked at it.
        ticket.session.cancel(ticket).whenComplete((isFound, error) -> failed(error != null || !isFound));
    }

    /**
     * After a wait the server may have granted it at any time: so its lease begins anew, and is as long as it is to be.
     */
    private void renew(Grant grant) {
        long sentAt = System.nanoTime();
        asked = server.node(id.key);
        send(Request.renew(id, terms.lease.ms)).whenComplete((reply, error) -> {
            if (error != null) {
                doubt = true;
                failed(error);
            } else if (Long.valueOf(1).equals(reply)) {
                granted(grant, sentAt);
            } else {
                tryOnce();
            }
        });
    }

    private void granted(Grant grant, long sentAt) {
        server.replicated(id, terms.lease.ms).whenComplete((isHeld, error) -> {
            if (error == null && !server.isAt(asked, id.key)) {
                // Another one is the master by now, and may know nothing of it.
                renew(grant);
            } else if (error == null && !isHeld) {
                tryOnce();
            } else if (error != null && Server.isNotReplicated(error) && !outcome.isDone()
                    && unreplicated++ < server.retryAttempts()) {
                held(sentAt + leaseNs());
                locks.release(server, id).whenComplete((released, failure) -> {
                    beginsAgain();
                    Server.later(server.retryDelayMs(unreplicated), this::tryOnce);
                });
            } else {
                held(sentAt + leaseNs());
                hand(grant, error);
            }
        });
    }

    private void held(long until) {
        ended(hold -> hold.granted(terms.lease, until, doubt));
        doubt = false;
    }

    private synchronized void beginsAgain() {
        isEnded = false;
        isAbandoned = false;
        locks.holds.with(id, hold -> {
            hold.attemptBegins();
            return null;
        });
    }

    private void hand(Grant grant, Throwable error) {
        if (error == null && outcome.complete(meaning.apply(grant))) {
            locks.watchdog.watch(id);
            return;
        }
        locks.release(server, id).whenComplete((released, failure) -> {
            if (error != null) {
                outcome.completeExceptionally(Server.cause(error));
            }
        });
    }

    private void notInTime() {
        failed(false);
        outcome.complete(meaning.apply(null));
    }

    private void failed(Throwable error) {
        failed(Server.isUnanswered(error));
        outcome.completeExceptionally(Server.cause(error));
    }

    private void failed(boolean withDoubt) {
        ended(hold -> hold.attemptFailed(doubt || withDoubt));
        locks.giveBackWhatIsLeftBehind(id, terms.lease.ms);
    }
}
