package rlock.redisson;

import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import org.redisson.api.RLock;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Work under a lock that its thread has taken: interrupted if the lock is lost, but not once it has ended. */
final class Guard {
    private static final Logger log = LoggerFactory.getLogger(RedissonLocks.class);

    private final Thread worker = Thread.currentThread();
    private LostLock lost;
    private boolean hasEnded;
    private boolean hasInterrupted;

    private Guard() {
    }

    static void run(RLock lock, Runnable work) {
        try {
            call(lock, () -> {
                work.run();
                return null;
            });
        } catch (RuntimeException e) {
            throw e;
        } catch (Exception e) {
            throw new AssertionError(e);
        }
    }

    static <T> T call(RLock lock, Callable<T> work) throws Exception {
        Guard guard = new Guard();
        CompletableFuture<LostLock> loss = lock instanceof Watched ? ((Watched) lock).loss(NativeLock.me()) : null;
        if (loss != null) {
            loss.thenAccept(guard::lost);
        }
        T result = null;
        Throwable thrown = null;
        try {
            result = guard.isLost() ? null : work.call();
        } catch (Throwable e) {
            thrown = e;
        }
        guard.end();
        if (loss != null) {
            loss.cancel(false);
        }
        LostLock lost = guard.unlocked(lock);
        if (lost != null) {
            throw withSuppressed(new LockLostException(lost), thrown);
        } else if (thrown instanceof Error) {
            throw (Error) thrown;
        } else if (thrown != null) {
            throw (Exception) thrown;
        }
        return result;
    }

    private static <E extends Throwable> E withSuppressed(E error, Throwable thrown) {
        if (thrown != null) {
            error.addSuppressed(thrown);
        }
        return error;
    }

    private synchronized boolean isLost() {
        return lost != null;
    }

    private synchronized void lost(LostLock what) {
        if (hasEnded) {
            return;
        }
        lost = what;
        // An interrupt that is there already is another's, and does as well.
        if (!worker.isInterrupted()) {
            hasInterrupted = true;
            worker.interrupt();
        }
    }

    /** No interrupt comes later than this, and none of ours is left behind. */
    private synchronized void end() {
        hasEnded = true;
        if (hasInterrupted) {
            Thread.interrupted();
        }
    }

    /** @return the loss, if there was one */
    private LostLock unlocked(RLock lock) {
        try {
            lock.unlock();
        } catch (IllegalMonitorStateException e) {
            return lost != null ? lost
                    : new LostLock(lock.getName(), worker.getId(), worker, null);
        } catch (RuntimeException e) {
            // The work is done all the same, and what the server has not given back ends with its lease.
            log.warn("Nobody knows whether {} was unlocked: {}", lock.getName(), e.getMessage());
        }
        return lost;
    }
}
