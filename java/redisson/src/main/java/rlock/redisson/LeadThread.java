package rlock.redisson;

import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import org.redisson.RedissonShutdownException;
import org.redisson.api.RLock;
import org.redisson.client.RedisException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Waits for a lock, works, releases, and waits again. */
final class LeadThread extends Thread implements Lead {
    private static final Logger log = LoggerFactory.getLogger(RedissonLocks.class);

    private static final long PAUSE_MIN_MS = 50;
    private static final long PAUSE_MAX_MS = 3_000;

    /** The server's errors that stay until a person does something about them. */
    private static final String[] LASTING =
        {"ERR", "NOAUTH", "WRONGPASS", "NOPERM", "WRONGTYPE", "WRONGKIND", "DEADLOCK"};

    private final RLock lock;
    private final Work work;
    private final CompletableFuture<Void> end = new CompletableFuture<>();
    private volatile boolean isClosed;
    private Throwable failure;
    private long pauseMs = PAUSE_MIN_MS;

    private LeadThread(RLock lock, Work work) {
        super("rlock-lead " + lock.getName());
        this.lock = lock;
        this.work = Objects.requireNonNull(work, "work");
        setDaemon(true);
    }

    static Lead begin(RLock lock, Work work) {
        LeadThread lead = new LeadThread(lock, work);
        lead.start();
        return lead;
    }

    @Override
    public void run() {
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

    /** Of the lock, not of the work. */
    private void failed(Throwable error) {
        boolean isLost = error instanceof LockLostException;
        if (isLost) {
            // What the work threw when it was interrupted counts no more.
            failure = null;
        }
        if (!isLost && isLasting(error)) {
            failure = error;
        } else if (!isClosed) {
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
            // The loop asks.
        }
        pauseMs = Math.min(2 * pauseMs, PAUSE_MAX_MS);
    }

    @Override
    public CompletableFuture<Void> end() {
        return end.copy();
    }

    @Override
    public void close() {
        isClosed = true;
        interrupt();
        if (Thread.currentThread() != this) {
            awaitEnd();
        }
    }

    private void awaitEnd() {
        try {
            join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
