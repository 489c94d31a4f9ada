package rlock.redisson;

import java.net.InetSocketAddress;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.redisson.client.RedisNodeNotFoundException;
import org.redisson.client.RedisTimeoutException;

/**
 * Renews holds without a lease of their own, each third of the watchdog's timeout, until they are unlocked; and reports
 * losses. A hold with a lease of its own is not renewed, as in Redisson, and is forgotten here when that lease is over.
 *
 * <p>A renewal that fails is repeated soon, until the lease must have ended: from then on another holder may have the lock,
 * and so it is lost, whatever the server will say. The holds at a node are also renewed when a connection to the node has
 * been made again.
 *
 * <p>Where a grant counts only once a replica has it, a renewal does, too: otherwise a new master could grant the lock to
 * another holder while this client still counts on it.
 */
final class Watchdog {
    private static final long SOON_AT_LEAST_MS = 50;
    /** A short lease is renewed after this part of its rest. Work that is done until then spares the server a renewal. */
    private static final long SOON_IN_A_REST = 10;

    private static final long LOOKS_APART_MS = 1_000;

    /** Gets each loss. */
    interface Lost {
        /** @param watchers the callers that wait for this loss */
        void tell(LostLock lost, List<CompletableFuture<LostLock>> watchers);
    }

    private final Server server;
    private final Holds holds;
    private final Rounds rounds;
    private final Lost lost;
    private final ConcurrentHashMap<InetSocketAddress, Boolean> isLookingAt = new ConcurrentHashMap<>();

    Watchdog(Server server, Holds holds, Lost lost) {
        this.server = server;
        this.holds = holds;
        rounds = new Rounds(server);
        this.lost = lost;
    }

    /** After each grant. Less than a whole lease may be left of it: then it is renewed soon. */
    void watch(Hold.Id id) {
        long leftMs = remainingMs(id);
        schedule(id, leftMs > id.leaseMs / 2 ? id.leaseMs / 3 : leftMs / SOON_IN_A_REST);
    }

    /** Schedules the next check: at the end of the lease at the latest, or only then if the hold is not renewed. */
    private void schedule(Hold.Id id, long ms) {
        holds.change(id, hold -> {
            if (hold.timer != null) {
                hold.timer.cancel();
            }
            long end = Math.max(1, TimeUnit.NANOSECONDS.toMillis(endOf(id, hold) - System.nanoTime()) + 1);
            hold.timer = hold.isHeld() ? server.onTime(hold.isKept() ? Math.min(ms, end) : end, () -> look(id)) : null;
        });
    }

    private void look(Hold.Id id) {
        Long version = holds.with(id, hold -> {
            if (hold.isHeld() && !hold.isKept() && isOver(id, hold)) {
                hold.isGone();
            }
            return hold.isKept() ? hold.version() : null;
        });
        if (version == null) {
            schedule(id, id.leaseMs);
            return;
        }
        if (loses(id, hold -> isOver(id, hold), holds.with(id, hold -> lossByTime(id, hold)))) {
            return;
        }
        if (holds.with(id, Hold::isPaused)) {
            schedule(id, id.leaseMs);
            return;
        }
        holds.change(id, hold -> hold.isRenewalDue = true);
        if (!server.isConfirming()) {
            renew(id, version, server.node(id.key), server::renew);
        } else if (id.leaseMs < server.watchdogMs()) {
            // Rounds are as far apart as the watchdog's leases allow: too far for this lease.
            renew(id, version, server.node(id.key), server::renewReplicated);
        } else {
            join(id);
        }
    }

    /** Null if the hold is guaranteed. */
    LostLock lossByNow(Hold.Id id) {
        return remainingMs(id) > 0 ? null : holds.with(id, hold -> lossByTime(id, hold));
    }

    /** The loss if the lease has ended just now. */
    private LostLock lossByTime(Hold.Id id, Hold hold) {
        if (!hold.isRenewalDue) {
            return new LostLock(id, LossReason.ENDED, null);
        }
        return new LostLock(id, LossReason.NOT_RENEWED, hold.failure != null ? hold.failure
                : new RedisTimeoutException("no reply to a renewal within the lease of " + id.leaseMs + " ms"));
    }

    private void join(Hold.Id id) {
        schedule(id, id.leaseMs);
        Server.Node node = server.node(id.key);
        if (node == null) {
            failed(id, new RedisNodeNotFoundException("entry for " + id.key + " hasn't been discovered yet"));
            return;
        }
        rounds.join(node, way -> {
            Long version = holds.with(id, hold -> hold.isKept() && !hold.isPaused() ? hold.version() : null);
            if (version != null) {
                renew(id, version, node, way);
            }
            return version != null;
        });
    }

    private boolean isOver(Hold.Id id, Hold hold) {
        return System.nanoTime() - endOf(id, hold) >= 0;
    }

    /** A renewed hold is lost a little before its end: the server's clock may run differently, and a report takes time. */
    private long endOf(Hold.Id id, Hold hold) {
        return hold.until - marginOf(id, hold);
    }

    private long marginOf(Hold.Id id, Hold hold) {
        return hold.isKept() ? Clock.ns(id.leaseMs / 100 + 2) : 0;
    }

    /** How long the hold is still guaranteed, by what is known here. */
    long remainingMs(Hold.Id id) {
        return holds.with(id, hold -> !hold.isHeld() ? 0 : Math.max(0,
                TimeUnit.NANOSECONDS.toMillis(hold.sureUntil() - marginOf(id, hold) - System.nanoTime())));
    }

    /**
     * A connection to a node is there again. The node may be another server now, or one that has lost its memory, and the
     * next renewals may be far away: so renew soon. Connections that come and go all the time do not renew all the time.
     */
    void reconnected(InetSocketAddress address) {
        if (isLookingAt.putIfAbsent(address, true) == null) {
            server.after(Math.min(LOOKS_APART_MS, Math.max(1, server.watchdogMs() / 30)), () -> {
                isLookingAt.remove(address);
                holds.ids().stream().filter(id -> server.isAt(address, id.key)).forEach(this::look);
            });
        }
    }

    /** @param asked what it says counts only as long as it is the master */
    private void renew(Hold.Id id, long version, Server.Node asked, Rounds.Way way) {
        long sentAt = System.nanoTime();
        schedule(id, id.leaseMs);
        holds.change(id, Hold::renewalBegins);
        way.renew(id, id.leaseMs).whenComplete((isHeld, error) -> {
            holds.with(id, Hold::renewalEnds).complete(null);
            if (error != null && Server.isOverwritten(error)) {
                notHeld(id, version, new LostLock(id, LossReason.OVERWRITTEN, Server.cause(error)));
            } else if (error != null || !server.isAt(asked, id.key)) {
                failed(id, error);
            } else if (isHeld) {
                renewed(id, version, sentAt + Clock.ns(id.leaseMs));
            } else {
                notHeld(id, version, new LostLock(id, LossReason.NOT_HELD, null));
            }
        });
    }

    private void renewed(Hold.Id id, long version, long until) {
        holds.change(id, hold -> {
            if (hold.isAsItWas(version)) {
                hold.renewed(until);
            }
        });
        schedule(id, id.leaseMs / 3);
    }

    /** The server says that nothing is held, whatever was under way. */
    void notHeld(Hold.Id id, LostLock why) {
        loses(id, hold -> true, why);
    }

    private void notHeld(Hold.Id id, long version, LostLock why) {
        if (!loses(id, hold -> hold.isAsItWas(version), why)) {
            schedule(id, id.leaseMs / 3);
        }
    }

    private void failed(Hold.Id id, Throwable error) {
        if (!server.isShuttingDown()) {
            holds.change(id, hold -> hold.failure = error == null ? null : Server.cause(error));
            schedule(id, Math.max(SOON_AT_LEAST_MS, id.leaseMs / 30));
        }
    }

    /** Renews at once what is still held. */
    void resume(Hold.Id id, long until) {
        holds.change(id, hold -> hold.resumeRenewals(until));
        schedule(id, 0);
    }

    /** Forgets a hold that was given up on purpose, unless it has changed since. */
    void forget(Hold.Id id, long version) {
        holds.change(id, hold -> {
            if (hold.isHeld() && hold.isAsItWas(version)) {
                hold.isGone();
            }
        });
    }

    private interface Condition {
        boolean isMet(Hold hold);
    }

    /** @return whether the condition was met, so that it is lost, and reported */
    private boolean loses(Hold.Id id, Condition condition, LostLock why) {
        List<CompletableFuture<LostLock>> watchers = holds.with(id, hold -> {
            if (!hold.isHeld() || !condition.isMet(hold)) {
                return null;
            }
            List<CompletableFuture<LostLock>> all = hold.takeWatchers();
            hold.isGone();
            return all;
        });
        if (watchers != null) {
            lost.tell(why, watchers);
        }
        return watchers != null;
    }
}
