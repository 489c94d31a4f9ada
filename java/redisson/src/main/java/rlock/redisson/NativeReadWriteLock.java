package rlock.redisson;

import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;

/** Redisson's RReadWriteLock by the RLOCK commands. */
final class NativeReadWriteLock implements RReadWriteLock {
    private final Server server;
    private final Locks locks;
    private final RReadWriteLock redissons;

    NativeReadWriteLock(Server server, Locks locks, RReadWriteLock redissons) {
        this.server = server;
        this.locks = locks;
        this.redissons = redissons;
    }

    @Override
    public RLock readLock() {
        return new NativeLock(server, locks, redissons.readLock(), Side.READ);
    }

    @Override
    public RLock writeLock() {
        return new NativeLock(server, locks, redissons.writeLock(), Side.WRITE);
    }
}
