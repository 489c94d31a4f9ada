package rlock.redisson;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.redisson.RedissonMultiLock;
import org.redisson.api.RFuture;
import org.redisson.api.RLock;

/**
 * Redisson's multi-lock over locks by the RLOCK commands. Its plain locks are taken all or none, by one request that waits in the
 * queue of each of them and holds none meanwhile; then each is held, renewed and unlocked as if taken alone.
 *
 * <p>Locks that the server cannot take at once are taken one after the other, as Redisson does it: locks of several clients
 * or of several slots, read and write sides, some fenced and some not. A round that is not over in time releases what it
 * has and begins again, so two multi-locks that wait for each other get apart. All are taken without a lease, so the
 * watchdog keeps them until the last one is taken. Then they get their lease.
 *
 * <p>An error or an interrupt ends the wait, and releases what was taken. Redisson treats all of these as a lock that is
 * not free, and goes on asking.
 */
final class NativeMultiLock extends RedissonMultiLock implements Watched {
    private static final int AT_ONCE_MAX = 64;

    /** As in Redisson: how long one round of a wait without a limit lasts, for each lock. */
    private static final long ROUND_MS = 1_500;

    private final List<NativeLock> members = new ArrayList<>();
    private final boolean areTakenAtOnce;

    NativeMultiLock(RLock... locks) {
        super(locks);
        for (RLock lock : locks) {
            if (!(lock instanceof NativeLock)) {
                throw new IllegalArgumentException(lock.getName() + " is not a lock by the RLOCK commands, but others here are: "
                        + "get all members of a multi-lock from RedissonLocks, or none");
            }
            members.add((NativeLock) lock);
        }
        areTakenAtOnce = areTakenAtOnce();
    }

    private boolean areTakenAtOnce() {
        NativeLock first = members.get(0);
        List<String> keys = members.stream().map(member -> member.key).distinct().collect(Collectors.toList());
        return keys.size() == members.size() && keys.size() <= AT_ONCE_MAX
                && members.stream().allMatch(member -> member.isPlain() && member.locks == first.locks
                        && member.isFenced() == first.isFenced())
                && first.server.areTogether(keys);
    }

    /** The locks for one request. */
    List<NativeLock> together() {
        if (!areTakenAtOnce) {
            throw new IllegalArgumentException("only plain locks of one client and one slot, fenced or not, can be held by one hold");
        }
        return members;
    }

    @Override
    public long remainingMs(long thread) {
        return members.stream().mapToLong(member -> member.remainingMs(thread)).min().orElse(0);
    }

    /** The loss of the first lock that is lost. */
    @Override
    public CompletableFuture<LostLock> loss(long thread) {
        return Watched.firstOf(
                members.stream().map(member -> member.loss(thread)).collect(Collectors.toList()), Runnable::run);
    }

    @Override
    public LostLock lossByNow(long thread) {
        return members.stream().map(member -> member.lossByNow(thread)).filter(Objects::nonNull).findFirst().orElse(null);
    }

    @Override
    public void unlock() {
        forEach(NativeLock::unlock);
    }

    @Override
    public void end(long thread) {
        forEach(member -> member.end(thread));
    }

    /** Redisson leaves the other locks taken if one is lost. */
    private void forEach(Consumer<NativeLock> unlock) {
        RuntimeException failure = null;
        for (NativeLock member : members) {
            try {
                unlock.accept(member);
            } catch (RuntimeException e) {
                // That a lock is not held is certain, so it counts more than a doubt.
                failure = failure == null || e instanceof IllegalMonitorStateException ? e : failure;
            }
        }
        if (failure != null) {
            throw failure;
        }
    }

    @Override
    public CompletableFuture<Boolean> restartLease(long leaseMs, long thread) {
        List<CompletableFuture<Boolean>> restarted =
                members.stream().map(member -> member.restartLease(leaseMs, thread)).collect(Collectors.toList());
        return CompletableFuture.allOf(restarted.toArray(new CompletableFuture<?>[0]))
                .thenApply(done -> restarted.stream().allMatch(CompletableFuture::join));
    }

    private CompletableFuture<Void> takeHoweverLong(long lease, TimeUnit unit, long thread) {
        return new Taking<Void>(NativeLock.FOR_EVER, lease, unit, thread, isTaken -> null).begin();
    }

    private CompletableFuture<Boolean> takeWithin(long wait, long lease, TimeUnit unit, long thread) {
        return new Taking<>(wait <= 0 ? 0 : unit.toMillis(wait), lease, unit, thread, isTaken -> isTaken).begin();
    }

    @Override
    public void lock() {
        lock(-1, null);
    }

    @Override
    public void lock(long leaseTime, TimeUnit unit) {
        members.get(0).get(takeHoweverLong(leaseTime, unit, NativeLock.me()));
    }

    @Override
    public void lockInterruptibly() throws InterruptedException {
        lockInterruptibly(-1, null);
    }

    @Override
    public void lockInterruptibly(long leaseTime, TimeUnit unit) throws InterruptedException {
        NativeLock.failIfInterrupted();
        members.get(0).server.get(takeHoweverLong(leaseTime, unit, NativeLock.me()), true);
    }

    @Override
    public RFuture<Void> lockAsync(long leaseTime, TimeUnit unit, long threadId) {
        return Server.asRedissons(takeHoweverLong(leaseTime, unit, threadId));
    }

    @Override
    public boolean tryLock() {
        return members.get(0).get(takeWithin(0, -1, null, NativeLock.me()));
    }

    @Override
    public boolean tryLock(long waitTime, long leaseTime, TimeUnit unit) throws InterruptedException {
        NativeLock.failIfInterrupted();
        return members.get(0).server.get(takeWithin(waitTime, leaseTime, unit, NativeLock.me()), true);
    }

    @Override
    public RFuture<Boolean> tryLockAsync(long waitTime, long leaseTime, TimeUnit unit, long threadId) {
        return Server.asRedissons(takeWithin(waitTime, leaseTime, unit, threadId));
    }

    /** One attempt to take all locks. */
    private final class Taking<T> {
        private final long waitMs;
        private final long lease;
        private final TimeUnit unit;
        private final long thread;
        private final Function<Boolean, T> meaning;
        private final long begin = System.nanoTime();
        private final CompletableFuture<T> outcome = new CompletableFuture<>();
        private final List<NativeLock> taken = new ArrayList<>();
        private volatile CompletableFuture<Boolean> attempt;

        Taking(long waitMs, long lease, TimeUnit unit, long thread, Function<Boolean, T> meaning) {
            this.waitMs = waitMs;
            this.lease = lease;
            this.unit = unit;
            this.thread = thread;
            this.meaning = meaning;
        }

        CompletableFuture<T> begin() {
            if (areTakenAtOnce) {
                takeAtOnce();
            } else {
                takeNext(begin);
            }
            outcome.whenComplete((result, error) -> attempt.cancel(false));
            return outcome;
        }

        /** What is under way ends when anything completes the outcome. */
        private CompletableFuture<Boolean> follow(CompletableFuture<Boolean> next) {
            attempt = next;
            if (outcome.isDone()) {
                next.cancel(false);
            }
            return next;
        }

        private void takeAtOnce() {
            List<Hold.Id> ids = members.stream().map(member -> member.id(thread)).collect(Collectors.toList());
            CompletableFuture<Boolean> all =
                    follow(members.get(0).acquire(ids, waitMs, lease, unit, grant -> grant != null));
            all.whenComplete((areTaken, error) -> {
                if (error != null) {
                    outcome.completeExceptionally(Server.cause(error));
                } else if (areTaken) {
                    taken.addAll(members);
                    hand();
                } else {
                    outcome.complete(meaning.apply(false));
                }
            });
        }

        private void takeNext(long roundBegin) {
            if (taken.size() == members.size()) {
                restartLeases();
                return;
            }
            long limitMs = waitMs < 0 ? ROUND_MS * members.size() : waitMs;
            long leftMs = limitMs - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - roundBegin);
            NativeLock member = members.get(taken.size());
            CompletableFuture<Boolean> next =
                    follow(member.acquire(Math.max(0, leftMs), -1, null, thread, grant -> grant != null));
            next.whenComplete((isTaken, error) -> {
                if (error == null && isTaken) {
                    taken.add(member);
                    takeNext(roundBegin);
                } else {
                    notAll(error);
                }
            });
        }

        private void notAll(Throwable error) {
            releaseHold().whenComplete((done, failure) -> {
                Throwable cause = error != null ? error : failure;
                if (cause != null) {
                    outcome.completeExceptionally(Server.cause(cause));
                } else if (waitMs >= 0) {
                    outcome.complete(meaning.apply(false));
                } else if (!outcome.isDone()) {
                    takeNext(System.nanoTime());
                }
            });
        }

        /** If one of them was lost meanwhile, all are released. */
        private void restartLeases() {
            if (lease <= 0) {
                hand();
                return;
            }
            restartLease(Math.max(1, unit.toMillis(lease)), thread).whenComplete((areHeld, error) -> {
                if (error == null && areHeld) {
                    hand();
                } else {
                    notAll(error);
                }
            });
        }

        private void hand() {
            if (!outcome.complete(meaning.apply(true))) {
                releaseHold();
            }
        }

        private CompletableFuture<Void> releaseHold() {
            List<CompletableFuture<Void>> all = taken.stream()
                    .map(member -> member.releaseHold(thread)).collect(Collectors.toList());
            taken.clear();
            return CompletableFuture.allOf(all.toArray(new CompletableFuture<?>[0]));
        }
    }
}
