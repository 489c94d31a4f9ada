package rlock.redisson;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.redisson.RedissonMultiLock;
import org.redisson.api.RFuture;
import org.redisson.api.RLock;

/**
 * Redisson's multi-lock over wrapped locks: it takes one after the other, as ever.
 *
 * <p>Only its way to give all of them a lease at the end knows no locks but Redisson's. So here they are taken without
 * one, which the watchdog keeps until the last is there, and then get theirs.
 */
final class NativeMultiLock extends RedissonMultiLock {
    private final List<NativeLock> members = new ArrayList<>();
    private final Server server;

    NativeMultiLock(Server server, RLock... locks) {
        super(locks);
        this.server = server;
        for (RLock lock : locks) {
            if (!(lock instanceof NativeLock)) {
                throw new IllegalArgumentException(lock.getName() + " is not a wrapped lock, but others here are: "
                        + "get all members of a multi-lock from the wrapped client, or none");
            }
            members.add((NativeLock) lock);
        }
    }

    @Override
    public boolean tryLock(long waitTime, long leaseTime, TimeUnit unit) throws InterruptedException {
        if (!super.tryLock(waitTime, -1, unit)) {
            // Redisson takes that for a lock that is not free, and goes on asking.
            server.failIfShutDown();
            return false;
        }
        return leaseTime <= 0 || server.get(restartLeases(leaseTime, unit, NativeLock.me()), false);
    }

    @Override
    public RFuture<Boolean> tryLockAsync(long waitTime, long leaseTime, TimeUnit unit, long threadId) {
        CompletableFuture<Boolean> taken =
                super.tryLockAsync(waitTime, -1, unit, threadId).toCompletableFuture();
        return Server.asRedissons(leaseTime <= 0 ? taken : taken.thenCompose(isTaken -> isTaken
                ? restartLeases(leaseTime, unit, threadId) : CompletableFuture.completedFuture(false)));
    }

    /** If one of them was lost meanwhile, all are given back. */
    private CompletableFuture<Boolean> restartLeases(long lease, TimeUnit unit, long thread) {
        List<CompletableFuture<Boolean>> restarted = new ArrayList<>();
        for (NativeLock member : members) {
            restarted.add(member.restartLease(Math.max(1, unit.toMillis(lease)), thread));
        }
        CompletableFuture<Void> all = CompletableFuture.allOf(restarted.toArray(new CompletableFuture<?>[0]));
        return all.handle((done, error) -> error == null && restarted.stream().allMatch(CompletableFuture::join))
                .thenCompose(areHeld -> areHeld
                        ? CompletableFuture.completedFuture(true)
                        : unlockAsync(thread).toCompletableFuture().handle((done, error) -> false));
    }
}
