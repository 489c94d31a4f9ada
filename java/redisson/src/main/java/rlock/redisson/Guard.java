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
        Watched watched = lock instanceof Watched ? (Watched) lock : null;
        CompletableFuture<LostLock> loss = watched == null ? null : watched.loss(NativeLock.me());
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
            guard.lost = guard.isLost() ? guard.lost : watched.lossByNow(NativeLock.me());
        }
        LostLock lost = guard.unlocked(lock, watched);
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
    private LostLock unlocked(RLock lock, Watched watched) {
        try {
            if (watched == null) {
                lock.unlock();
            } else {
                watched.end(worker.getId());
            }
        } catch (IllegalMonitorStateException e) {
            return lost != null ? lost : e.getCause() instanceof LockLostException
                    ? ((LockLostException) e.getCause()).getLost()
                    : new LostLock(lock.getName(), worker.getId(), worker, LossReason.NOT_HELD, null);
        } catch (RuntimeException e) {
            // The lease lasted until the work had ended, so no other client can have had the lock.
            log.warn("{}: the release is in doubt and goes on in the background: {}", lock.getName(), e.getMessage());
        }
        return lost;
    }
}
