package rlock.redisson;

import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import org.redisson.RedissonShutdownException;
import org.redisson.api.RLock;
import org.redisson.client.RedisException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Work under a lock, turn by turn, until this is closed: {@link RedissonLocks#lead} begins it. It has a thread of its own.
 */
public final class Lead implements AutoCloseable {
    private static final Logger log = LoggerFactory.getLogger(RedissonLocks.class);

    private static final long PAUSE_MIN_MS = 50;
    private static final long PAUSE_MAX_MS = 3_000;

    /** The server's errors that stay until a person does something about them. */
    private static final String[] LASTING =
        {"ERR", "NOAUTH", "WRONGPASS", "NOPERM", "WRONGTYPE", "WRONGKIND", "DEADLOCK"};

    private final RLock lock;
    private final Work work;
    private final Thread thread;
    private final CompletableFuture<Void> end = new CompletableFuture<>();
    private volatile boolean isClosed;
    private Throwable failure;
    private long pauseMs = PAUSE_MIN_MS;

    /** The work of one turn. */
    @FunctionalInterface
    public interface Work {
        /**
         * Runs under the lock, and is interrupted when the lock is lost or the lead is closed.
         *
         * @throws Exception ends the lead
         */
        void run() throws Exception;
    }

    Lead(RLock lock, Work work) {
        this.lock = lock;
        this.work = Objects.requireNonNull(work, "work");
        thread = new Thread(this::run, "rlock-lead " + lock.getName());
        thread.setDaemon(true);
        thread.start();
    }

    private void run() {
        while (!isClosed && failure == null) {
            try {
                turn();
            } catch (Throwable e) {
                failed(e);
            }
        }
        if (failure == null || isClosed) {
            end.complete(null);
        } else {
            end.completeExceptionally(failure);
        }
    }

    private void turn() throws Exception {
        lock.lockInterruptibly();
        Guard.call(lock, () -> {
            pauseMs = PAUSE_MIN_MS;
            try {
                if (!isClosed) {
                    work.run();
                }
            } catch (Throwable e) {
                failure = e;
            }
            return null;
        });
    }

    /** Handles an error of the lock, not of the work. */
    private void failed(Throwable error) {
        // What the work threw when it was interrupted does not count.
        failure = !(error instanceof LockLostException) && isLasting(error) ? error : null;
        if (failure == null && !isClosed) {
            log.warn("{}: leads again in {} ms: {}", lock.getName(), pauseMs, error.getMessage());
            pause();
        }
    }

    private static boolean isLasting(Throwable error) {
        return !(error instanceof RedisException) || error instanceof RedissonShutdownException
                || Server.isReply(error, LASTING);
    }

    private void pause() {
        try {
            Thread.sleep(pauseMs);
        } catch (InterruptedException closed) {
            // The loop checks isClosed.
        }
        pauseMs = Math.min(2 * pauseMs, PAUSE_MAX_MS);
    }

    /**
     * The end of the lead.
     *
     * @return completes after the lock is released: with null if the lead was closed; exceptionally with the work's error, or
     *     with one that does not go away, such as a missing access right
     */
    public CompletableFuture<Void> end() {
        return end.copy();
    }

    /**
     * Interrupts the work, or the wait for the lock, and returns when the lock is released. On the thread of the work it
     * returns at once. If this thread is interrupted, it returns earlier and keeps the interrupt.
     */
    @Override
    public void close() {
        isClosed = true;
        thread.interrupt();
        try {
            if (Thread.currentThread() != thread) {
                thread.join();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
