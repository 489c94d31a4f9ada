package rlock.redisson;

import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import org.redisson.api.RLock;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Work under a lock: its thread is interrupted if the lock is lost, but not once the work has ended. */
final class Guard {
    private static final Logger log = LoggerFactory.getLogger(RedissonLocks.class);

    /** What the work needs, and the way to end it. */
    interface Subject {
        String getName();

        /** Null if no loss is reported. */
        CompletableFuture<LostLock> loss();

        /** The loss, reported or not; null if the hold is guaranteed. */
        LostLock lossByNow();

        /**
         * Ends the hold, also if no server answers: then this fails.
         *
         * @param isDone whether the work has ended well
         */
        void end(boolean isDone);
    }

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

    /** A lock that this thread has taken. */
    static <T> T call(RLock lock, Callable<T> work) throws Exception {
        return call(new OfThread(lock), work);
    }

    static <T> T call(Subject subject, Callable<T> work) throws Exception {
        Guard guard = new Guard();
        CompletableFuture<LostLock> loss = subject.loss();
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
            guard.lost = guard.isLost() ? guard.lost : subject.lossByNow();
        }
        LostLock now = end(subject, thrown == null && !guard.isLost());
        LostLock lost = guard.lost != null ? guard.lost : now;
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
        // If the thread is interrupted already, that interrupt is not ours, and is enough.
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

    /** @return the loss, if the server says that the lock is lost */
    static LostLock end(Subject subject, boolean isDone) {
        try {
            subject.end(isDone);
        } catch (IllegalMonitorStateException e) {
            return e.getCause() instanceof LockLostException ? ((LockLostException) e.getCause()).getLost()
                    : new LostLock(subject.getName(), NativeLock.me(), Thread.currentThread(), LossReason.NOT_HELD, null);
        } catch (RuntimeException e) {
            // The lease lasted until the work had ended, so no other client can have had the lock.
            log.warn("{}: the release is in doubt and goes on in the background: {}", subject.getName(), e.getMessage());
        }
        return null;
    }

    /** A lock of the current thread. Redisson's own locks report no loss. */
    private static final class OfThread implements Subject {
        private final RLock lock;
        private final Watched watched;

        OfThread(RLock lock) {
            this.lock = lock;
            watched = lock instanceof Watched ? (Watched) lock : null;
        }

        @Override
        public String getName() {
            return lock.getName();
        }

        @Override
        public CompletableFuture<LostLock> loss() {
            return watched == null ? null : watched.loss(NativeLock.me());
        }

        @Override
        public LostLock lossByNow() {
            return watched == null ? null : watched.lossByNow(NativeLock.me());
        }

        @Override
        public void end(boolean isDone) {
            if (watched == null) {
                lock.unlock();
            } else {
                watched.end(NativeLock.me());
            }
        }
    }
}
