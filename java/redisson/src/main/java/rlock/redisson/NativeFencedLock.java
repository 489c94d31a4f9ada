package rlock.redisson;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RFencedLock;
import org.redisson.api.RFuture;

/** Redisson's RFencedLock by the RLOCK commands: each grant draws a token, whether it is asked for or not. */
final class NativeFencedLock extends NativeLock implements RFencedLock {
    private final RFencedLock redissons;

    NativeFencedLock(Server server, Locks locks, RFencedLock redissons) {
        super(server, locks, redissons, Side.PLAIN);
        this.redissons = redissons;
    }

    @Override
    boolean isFenced() {
        return true;
    }

    /** @param wait below 0: forever */
    private CompletableFuture<Long> token(long wait, long lease, TimeUnit unit) {
        long waitMs = wait <= 0 ? wait : unit.toMillis(wait);
        return acquire(waitMs, lease, unit, me(), grant -> grant == null ? null : grant.token);
    }

    @Override
    public Long getToken() {
        return redissons.getToken();
    }

    @Override
    public RFuture<Long> getTokenAsync() {
        return redissons.getTokenAsync();
    }

    @Override
    public Long lockAndGetToken() {
        return get(token(-1, -1, null));
    }

    @Override
    public RFuture<Long> lockAndGetTokenAsync() {
        return Server.asRedissons(token(-1, -1, null));
    }

    @Override
    public Long lockAndGetToken(long leaseTime, TimeUnit unit) {
        return get(token(-1, leaseTime, unit));
    }

    @Override
    public RFuture<Long> lockAndGetTokenAsync(long leaseTime, TimeUnit unit) {
        return Server.asRedissons(token(-1, leaseTime, unit));
    }

    @Override
    public Long tryLockAndGetToken() {
        return get(token(0, -1, null));
    }

    @Override
    public RFuture<Long> tryLockAndGetTokenAsync() {
        return Server.asRedissons(token(0, -1, null));
    }

    @Override
    public Long tryLockAndGetToken(long waitTime, TimeUnit unit) {
        return tryLockAndGetToken(waitTime, -1, unit);
    }

    @Override
    public RFuture<Long> tryLockAndGetTokenAsync(long waitTime, TimeUnit unit) {
        return tryLockAndGetTokenAsync(waitTime, -1, unit);
    }

    @Override
    public Long tryLockAndGetToken(long waitTime, long leaseTime, TimeUnit unit) {
        return get(token(waitTime, leaseTime, unit));
    }

    @Override
    public RFuture<Long> tryLockAndGetTokenAsync(long waitTime, long leaseTime, TimeUnit unit) {
        return Server.asRedissons(token(waitTime, leaseTime, unit));
    }
}
