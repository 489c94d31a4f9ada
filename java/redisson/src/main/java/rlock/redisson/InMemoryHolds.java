package rlock.redisson;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** The holds of one name in memory, and its waiters in their order. */
final class InMemoryHolds {
    static final long FOR_EVER = Long.MAX_VALUE;
    /** The lease to which the watchdog would renew a hold. */
    static final long KEPT_MS = 30_000;

    final String name;
    private final Observers observers;
    private final List<Hold> holds = new ArrayList<>();
    private final Deque<Object> waiting = new ArrayDeque<>();
    private long tokens;

    private static final class Hold {
        final Side side;
        final long thread;
        final Thread owner;
        final long since = System.nanoTime();
        final List<CompletableFuture<LostLock>> watchers = new ArrayList<>();
        int count;
        private long lease;
        private long leasedAt;

        Hold(Side side, long thread) {
            this.side = side;
            this.thread = thread;
            owner = thread == NativeLock.me() ? Thread.currentThread() : null;
        }

        void restart(long nanos) {
            lease = nanos;
            leasedAt = System.nanoTime();
        }

        long restNanos() {
            return lease == FOR_EVER ? FOR_EVER : lease - (System.nanoTime() - leasedAt);
        }
    }

    InMemoryHolds(String name, Observers observers) {
        this.name = name;
        this.observers = observers;
    }

    static long waitNs(long ms) {
        return ms < 0 ? FOR_EVER : Clock.ns(ms);
    }

    /** @return the grant's token; null if the wait is over */
    synchronized Long acquire(Side side, int limit, long thread, long wait, long lease, boolean isInterruptible)
            throws InterruptedException {
        long began = System.nanoTime();
        Object ticket = new Object();
        boolean isInterrupted = false;
        waiting.add(ticket);
        try {
            Hold hold = take(side, limit, thread, ticket);
            for (long rest = wait; hold == null && rest > 0; hold = take(side, limit, thread, ticket)) {
                try {
                    TimeUnit.NANOSECONDS.timedWait(this, Math.min(rest, nextEnd()));
                } catch (InterruptedException e) {
                    if (isInterruptible) {
                        throw e;
                    }
                    isInterrupted = true;
                }
                rest = wait == FOR_EVER ? FOR_EVER : wait - (System.nanoTime() - began);
            }
            observers.waited(name, Duration.ofNanos(System.nanoTime() - began), hold != null);
            if (hold == null) {
                return null;
            }
            hold.restart(lease);
            return ++tokens;
        } finally {
            waiting.remove(ticket);
            notifyAll();
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private Hold take(Side side, int limit, long thread, Object ticket) {
        Hold hold = hold(side, thread);
        if (hold == null) {
            boolean isItsTurn = waiting.peek() == ticket || holds.stream().anyMatch(one -> one.thread == thread);
            if (!isItsTurn || !isFree(side, limit, thread)) {
                return null;
            }
            hold = new Hold(side, thread);
            holds.add(hold);
        }
        hold.count = side == Side.PERMIT ? 1 : hold.count + 1;
        return hold;
    }

    private boolean isFree(Side side, int limit, long thread) {
        switch (side) {
            case PERMIT:
                return holds.size() < limit;
            case READ:
                return holds.stream().allMatch(hold -> hold.side == Side.READ || hold.thread == thread);
            default:
                return holds.isEmpty();
        }
    }

    /** Null if there is none. Every query calls this first, and it ends holds after their lease. */
    private Hold hold(Side side, long thread) {
        for (Iterator<Hold> each = holds.iterator(); each.hasNext();) {
            Hold hold = each.next();
            if (hold.restNanos() <= 0) {
                each.remove();
                hold.watchers.forEach(watcher -> watcher.cancel(false));
            }
        }
        return holds.stream().filter(one -> one.side == side && one.thread == thread).findFirst().orElse(null);
    }

    private long nextEnd() {
        return holds.stream().mapToLong(Hold::restNanos).min().orElse(FOR_EVER);
    }

    /** @return whether it was held */
    synchronized boolean release(Side side, long thread) {
        Hold hold = hold(side, thread);
        if (hold != null && --hold.count == 0) {
            holds.remove(hold);
            hold.watchers.forEach(watcher -> watcher.cancel(false));
            observers.held(name, Duration.ofNanos(System.nanoTime() - hold.since));
            notifyAll();
        }
        return hold != null;
    }

    /** @return whether there was a hold */
    boolean lose() {
        List<Hold> lost;
        synchronized (this) {
            lost = List.copyOf(holds);
            holds.clear();
            notifyAll();
        }
        for (Hold hold : lost) {
            LostLock loss = new LostLock(name, hold.thread, hold.owner, LossReason.NOT_HELD, null);
            hold.watchers.forEach(watcher -> watcher.complete(loss));
            observers.lost(loss);
        }
        return !lost.isEmpty();
    }

    /** @return cancelled already if it is not held */
    synchronized CompletableFuture<LostLock> loss(Side side, long thread) {
        CompletableFuture<LostLock> watcher = new CompletableFuture<>();
        Hold hold = hold(side, thread);
        if (hold == null) {
            watcher.cancel(false);
        } else {
            hold.watchers.add(watcher);
        }
        return watcher;
    }

    /** @return whether it is held */
    synchronized boolean restart(Side side, long thread, long lease) {
        Hold hold = hold(side, thread);
        if (hold != null) {
            hold.restart(lease);
        }
        return hold != null;
    }

    /** Reports no loss of this hold any more. */
    synchronized void forget(Side side, long thread) {
        Hold hold = hold(side, thread);
        if (hold != null) {
            List.copyOf(hold.watchers).forEach(watcher -> watcher.cancel(false));
        }
    }

    /** @return 0 if it is not held */
    synchronized int count(Side side, long thread) {
        Hold hold = hold(side, thread);
        return hold == null ? 0 : hold.count;
    }

    /** @return 0 if it is not held */
    synchronized long restMs(Side side, long thread) {
        Hold hold = hold(side, thread);
        return hold == null ? 0 : ms(hold.restNanos());
    }

    /** @return the longest of all its holders; -2 if there is none, as in Redisson */
    synchronized long restMs(Side side) {
        hold(side, 0);
        return holds.stream().filter(hold -> hold.side == side).mapToLong(hold -> ms(hold.restNanos())).max().orElse(-2);
    }

    private static long ms(long nanos) {
        return nanos == FOR_EVER ? KEPT_MS : TimeUnit.NANOSECONDS.toMillis(nanos);
    }

    synchronized long lastToken() {
        return tokens;
    }
}
