package rlock.redisson;

import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import org.redisson.client.RedisTimeoutException;

/**
 * Renews what was taken without a lease, each third of the watchdog's timeout, until it is unlocked; and tells of what
 * is lost. A hold with a lease of its own is not renewed, as in Redisson, and is forgotten here when that is over.
 *
 * <p>A renewal that fails is made again soon, until the lease must have ended: from then on somebody else may have the
 * lock, and so it is lost, whatever the server will say.
 */
final class Watchdog {
    private static final long SOON_AT_LEAST_MS = 50;

    private final Server server;
    private final Holds holds;
    private final BiConsumer<Hold.Id, Throwable> lost;

    Watchdog(Server server, Holds holds, BiConsumer<Hold.Id, Throwable> lost) {
        this.server = server;
        this.holds = holds;
        this.lost = lost;
    }

    /** After each grant. */
    void watch(Hold.Id id) {
        schedule(id, lease() / 3);
    }

    private long lease() {
        return server.watchdogMs();
    }

    /** The next look, which is at the end of the lease at the latest, or only then if nobody is to renew it. */
    private void schedule(Hold.Id id, long ms) {
        holds.with(id, hold -> {
            if (hold.timer != null) {
                hold.timer.cancel();
            }
            long end = Math.max(1, TimeUnit.NANOSECONDS.toMillis(hold.until - System.nanoTime()) + 1);
            hold.timer = hold.isHeld() ? server.after(hold.isKept() ? Math.min(ms, end) : end, () -> look(id)) : null;
            return null;
        });
    }

    private void look(Hold.Id id) {
        Long version = holds.with(id, hold -> {
            if (hold.isHeld() && !hold.isKept() && isOver(hold)) {
                hold.isGone();
            }
            return hold.isKept() ? hold.version() : null;
        });
        if (version == null) {
            schedule(id, lease());
        } else if (loses(id, Watchdog::isOver)) {
            lost.accept(id, new RedisTimeoutException("no reply to a renewal within the lease of " + lease() + " ms"));
        } else {
            renew(id, version);
        }
    }

    private static boolean isOver(Hold hold) {
        return System.nanoTime() - hold.until >= 0;
    }

    private void renew(Hold.Id id, long version) {
        long sentAt = System.nanoTime();
        long leaseMs = lease();
        schedule(id, leaseMs);
        Server.Node asked = server.node(id.key);
        server.once(id.key, Request.renew(id, leaseMs)).whenComplete((reply, error) -> {
            if (error != null || !server.isAt(asked, id.key)) {
                failed(id);
            } else if (Long.valueOf(1).equals(reply)) {
                renewed(id, version, sentAt + TimeUnit.MILLISECONDS.toNanos(leaseMs));
            } else {
                notHeld(id, version);
            }
        });
    }

    private void renewed(Hold.Id id, long version, long until) {
        holds.with(id, hold -> hold.isAsItWas(version) ? hold.until = Math.max(hold.until, until) : null);
        schedule(id, lease() / 3);
    }

    private void notHeld(Hold.Id id, long version) {
        if (loses(id, hold -> hold.isAsItWas(version))) {
            lost.accept(id, null);
        } else {
            schedule(id, lease() / 3);
        }
    }

    private void failed(Hold.Id id) {
        if (!server.isShuttingDown()) {
            schedule(id, Math.max(SOON_AT_LEAST_MS, lease() / 30));
        }
    }

    /** What was given up on purpose, unless it has changed since. */
    void forget(Hold.Id id, long version) {
        loses(id, hold -> hold.isAsItWas(version));
    }

    private interface Condition {
        boolean isMet(Hold hold);
    }

    private boolean loses(Hold.Id id, Condition condition) {
        return holds.with(id, hold -> {
            boolean isLost = hold.isHeld() && condition.isMet(hold);
            if (isLost) {
                hold.isGone();
            }
            return isLost;
        });
    }
}
