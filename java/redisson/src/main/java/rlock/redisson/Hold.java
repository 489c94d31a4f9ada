package rlock.redisson;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * What one thread holds of one side of one lock, as far as this process knows: how often, with which leases, until
 * when.
 *
 * <p>A request without a reply may have taken the lock all the same. Then there is a doubt, and the last unlock
 * releases everything. Changed only inside {@link Holds#with}.
 */
final class Hold {
    /** The thread and the lock. The name is the one that the service uses; a name mapper may make another key of it. */
    static final class Id {
        final Side side;
        final String key;
        final String holder;
        final long thread;
        /** Null if it was taken in the name of another thread. */
        final Thread owner;
        final String name;
        /** The lease to which the watchdog renews it. */
        final long leaseMs;

        private Id(Side side, String key, String holder, long thread, Thread owner, String name, long leaseMs) {
            this.side = side;
            this.key = key;
            this.holder = holder;
            this.thread = thread;
            this.owner = owner;
            this.name = name;
            this.leaseMs = leaseMs;
        }

        /** The id of a thread of this client. */
        static Id of(Side side, String key, Server server, long thread, String name) {
            Thread me = Thread.currentThread();
            return new Id(side, key, server.clientId() + ":" + thread, thread, thread == me.getId() ? me : null, name,
                    server.watchdogMs());
        }

        /** A hold of another process, or of another part of this one. The number keeps two adoptions of the hold apart. */
        static Id adopted(Side side, String key, String holder, long number, long leaseMs) {
            return new Id(side, key, holder, number, null, key, leaseMs);
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Id && side == ((Id) other).side && thread == ((Id) other).thread
                    && key.equals(((Id) other).key) && holder.equals(((Id) other).holder);
        }

        @Override
        public int hashCode() {
            return 31 * (31 * key.hashCode() + holder.hashCode()) + side.hashCode();
        }
    }

    /** How long a lease is, and whether the watchdog renews it. */
    static final class Lease {
        final long ms;
        final boolean isKept;

        Lease(long ms, boolean isKept) {
            this.ms = ms;
            this.isKept = isKept;
        }
    }

    /** One for each time that the lock was taken, the last one first. */
    private final Deque<Lease> leases = new ArrayDeque<>();

    /** When the first of them was granted. */
    private long since;

    /** The callers that wait for its loss. */
    private final List<CompletableFuture<LostLock>> watchers = new ArrayList<>(0);

    /** Requests under way. */
    private int attempts;
    private int releases;

    /** Renewals by the watchdog: those under way, and their total number. */
    private int renewals;
    private long begun;

    /** While the hold is detached: completes when no renewal is under way. Null: the watchdog renews. */
    private CompletableFuture<Void> renewalsOver;

    private boolean isDoubtful;

    /** How many holds are being taken back in the background; the next request could be granted one of them. */
    private int settling;
    private CompletableFuture<Void> settled;

    /** When the lease of the last renewal or grant ends, counted from when it was asked for. */
    long until;

    /** The same, unless the lock was taken again since, with a shorter lease: the server counts that one. */
    private long sureUntil;

    /** Whether a renewal was asked for since the last grant or renewal that counted. */
    boolean isRenewalDue;

    /** Why the last renewal did not count; null if it did. */
    Throwable failure;

    /** Grows with each change, so that a reply that came too late to mean anything can be recognized. */
    private long version;

    Clock.Timer timer;

    boolean isIdle() {
        return leases.isEmpty() && attempts == 0 && releases == 0 && renewals == 0 && !isDoubtful && settling == 0;
    }

    boolean isHeld() {
        return !leases.isEmpty();
    }

    long since() {
        return since;
    }

    /** Adds a watcher, if anything is held. */
    boolean tells(CompletableFuture<LostLock> watcher) {
        return isHeld() && watchers.add(watcher);
    }

    boolean tellsNoMore(CompletableFuture<LostLock> watcher) {
        return watchers.remove(watcher);
    }

    List<CompletableFuture<LostLock>> takeWatchers() {
        if (watchers.isEmpty()) {
            return List.of();
        }
        List<CompletableFuture<LostLock>> taken = List.copyOf(watchers);
        watchers.clear();
        return taken;
    }

    boolean isKept() {
        return leases.stream().anyMatch(lease -> lease.isKept);
    }

    long version() {
        return version;
    }

    /** Whether no change since then, and no release under way, explains that the server knows of no hold. */
    boolean isAsItWas(long then) {
        return version == then && releases == 0;
    }

    void attemptBegins() {
        attempts++;
    }

    /** @param isCounted whether the grant comes on top of what was held; otherwise it replaces that */
    void granted(Lease lease, long until, boolean withDoubt, boolean isCounted) {
        attempts--;
        version++;
        if (leases.isEmpty()) {
            since = System.nanoTime();
        } else if (!isCounted) {
            leases.clear();
        }
        sureUntil = leases.isEmpty() ? until : Math.min(sureUntil, until);
        this.until = leases.isEmpty() ? until : Math.max(this.until, until);
        if (leases.isEmpty()) {
            isRenewalDue = false;
            failure = null;
        }
        leases.push(lease);
        isDoubtful |= withDoubt;
    }

    void renewalBegins() {
        renewals++;
        begun++;
    }

    /** @return to be completed: a detach may wait for it */
    CompletableFuture<Void> renewalEnds() {
        return --renewals == 0 && renewalsOver != null ? renewalsOver : new CompletableFuture<>();
    }

    /** A renewal would overwrite the lease with which the hold is handed on. Replies to those under way mean nothing now. */
    CompletableFuture<Void> pauseRenewals() {
        version++;
        renewalsOver = renewals == 0 ? CompletableFuture.completedFuture(null) : new CompletableFuture<>();
        return renewalsOver;
    }

    /** @param until the end of the lease that the server may have set meanwhile */
    void resumeRenewals(long until) {
        renewalsOver = null;
        version++;
        this.until = Math.min(this.until, until);
        sureUntil = Math.min(sureUntil, until);
    }

    boolean isPaused() {
        return renewalsOver != null;
    }

    /** For {@link #restart}: a mark that no renewal is under way; -1 if one is. */
    long calm() {
        return renewals == 0 ? begun : -1;
    }

    /**
     * The last grant has another lease now.
     *
     * @param calm from before the request: if a renewal was under way then or since, its lease may be what counts
     */
    void restart(Lease lease, long until, long calm) {
        if (leases.poll() != null) {
            leases.push(lease);
            boolean isLast = calm == begun;
            // If the watchdog still renews the hold, only a renewal makes this time later.
            this.until = isKept() ? Math.min(this.until, until) : until;
            sureUntil = isLast ? until : Math.min(sureUntil, until);
            version++;
        }
    }

    void renewed(long until) {
        this.until = until;
        sureUntil = until;
        isRenewalDue = false;
        failure = null;
    }

    long sureUntil() {
        return Math.min(until, sureUntil);
    }

    void attemptFailed(boolean withDoubt) {
        attempts--;
        isDoubtful |= withDoubt;
    }

    /**
     * The request of a release. If holds are left, the lease restarts, as in Redisson: with the lease from before the last
     * grant or, if that is not known here, with the lease of the last grant.
     */
    Request releaseBegins(Id id) {
        releases++;
        version++;
        boolean all = isDoubtful && leases.size() <= 1;
        Lease left = leases.stream().skip(1).findFirst().orElse(leases.peek());
        return Request.release(id, all, left == null ? 0 : left.ms);
    }

    /** The hold was there, and is released. */
    void released() {
        releases--;
        version++;
        leases.poll();
        if (leases.isEmpty() && attempts == 0) {
            isDoubtful = false;
        }
    }

    void releaseUnanswered() {
        releases--;
        version++;
        leases.poll();
        isDoubtful = true;
    }

    void releaseRefused() {
        releases--;
        version++;
    }

    /** Nothing is held any more. */
    void isGone() {
        leases.clear();
        version++;
        isDoubtful &= attempts > 0;
    }

    /** The server has replied to a release that nothing was held. */
    void releasedNothing() {
        releases--;
        isGone();
    }

    /** The server may still have the hold although it is over here. */
    void isAbandoned() {
        isDoubtful = true;
    }

    /** Whether a hold may be there that no thread will release, and nothing is being done about it. */
    boolean isLeftBehind() {
        return isDoubtful && leases.isEmpty() && attempts == 0 && releases == 0 && settling == 0;
    }

    void markReleased() {
        isDoubtful &= attempts > 0 || !leases.isEmpty();
    }

    void settlingBegins() {
        if (settling++ == 0) {
            settled = new CompletableFuture<>();
        }
    }

    /** @return to be completed: others may wait until nothing is left to settle */
    CompletableFuture<Void> settlingEnds() {
        return --settling == 0 ? settled : new CompletableFuture<>();
    }

    CompletableFuture<Void> settled() {
        return settling == 0 ? CompletableFuture.completedFuture(null) : settled;
    }
}
