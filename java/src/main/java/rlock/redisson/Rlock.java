package rlock.redisson;

import java.lang.ref.WeakReference;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.WeakHashMap;
import java.util.concurrent.CompletionException;
import java.util.function.Consumer;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;
import org.redisson.connection.MasterSlaveEntry;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Redisson's own locks, granted and waited for inside the server, by one line:
 *
 * <pre>{@code RedissonClient locks = Rlock.wrap(redisson);}</pre>
 *
 * <p>Everything of it is Redisson's but {@code getLock}, {@code getFencedLock}, {@code getReadWriteLock} and, with such
 * locks as members, {@code getMultiLock}. These return locks of the same interfaces, on the same keys and with the same
 * holders, so services that are not wrapped share them.
 */
public final class Rlock {
    private static final Logger log = LoggerFactory.getLogger(Rlock.class);

    /** So that a client that is wrapped twice has one watchdog, and counts its holds once. */
    private static final Map<RedissonClient, WeakReference<RedissonClient>> wrapped = new WeakHashMap<>();

    private Rlock() {
    }

    /**
     * A client whose locks use the RLOCK commands.
     *
     * @param redisson as {@code Redisson.create} returned it; it stays usable, and is what {@code shutdown} ends
     * @return the same for the same client
     * @throws RlockMissingException if a master has not loaded the module
     */
    public static RedissonClient wrap(RedissonClient redisson) {
        Objects.requireNonNull(redisson, "redisson");
        if (Wrapping.unwrap(redisson) != null) {
            return redisson;
        }
        synchronized (wrapped) {
            WeakReference<RedissonClient> known = wrapped.get(redisson);
            RedissonClient client = known == null ? null : known.get();
            if (client == null) {
                client = Wrapping.of(redisson, checked(redisson));
                wrapped.put(redisson, new WeakReference<>(client));
            }
            return client;
        }
    }

    /**
     * The same, or the client as it is, with a line in the log, if a master has not loaded the module or the client is
     * not Redisson's own, as a proxy is not.
     *
     * @param redisson as {@code Redisson.create} returned it
     * @return a client whose locks use the RLOCK commands if they are there
     */
    public static RedissonClient wrapIfAvailable(RedissonClient redisson) {
        try {
            return wrap(redisson);
        } catch (RlockMissingException | IllegalArgumentException e) {
            log.warn("Redisson's own locks are used: {}", e.getMessage());
            return redisson;
        }
    }

    /**
     * Tells of each lock that a wrapped client of this process has lost: the server says that it is not held any more,
     * or the watchdog could not renew it until its lease was over, or no replica has confirmed that where Redisson
     * checks it. Of locks that were taken with a lease of their own nobody is told; they end when they were meant to.
     *
     * @param listener called on a thread of Redisson's
     * @return ends it
     */
    public static Runnable onLost(Consumer<LostLock> listener) {
        return Losses.listen(Objects.requireNonNull(listener, "listener"));
    }

    /**
     * For how long the current thread's hold of a lock can still be vouched for: nobody else gets it within that time,
     * however slow the server and the way to it are, as long as the server keeps what it has and nobody breaks the lock
     * open. It asks no server. What is taken without a lease is renewed at each third of the watchdog's timeout, so the
     * time grows again and again.
     *
     * @param lock of a wrapped client; of a multi-lock, the one of its locks that ends first counts
     * @return in milliseconds; 0 if it is not held, or may be somebody else's by now
     */
    public static long remaining(RLock lock) {
        return remaining(lock, NativeLock.me());
    }

    /**
     * The same for another thread.
     *
     * @param lock of a wrapped client; of a multi-lock, the one of its locks that ends first counts
     * @param threadId the thread's id, or the one that was given to {@code lockAsync}
     * @return in milliseconds; 0 if it is not held, or may be somebody else's by now
     */
    public static long remaining(RLock lock, long threadId) {
        if (lock instanceof NativeLock) {
            return ((NativeLock) lock).remainingMs(threadId);
        } else if (lock instanceof NativeMultiLock) {
            return ((NativeMultiLock) lock).remainingMs(threadId);
        }
        throw new IllegalArgumentException("not a lock of a wrapped client: " + lock);
    }

    private static Server checked(RedissonClient redisson) {
        if (!(redisson instanceof Redisson)) {
            throw new IllegalArgumentException("not a client that Redisson.create made: " + redisson.getClass());
        }
        Server server = new Server(((Redisson) redisson).getCommandExecutor());
        // Knows of no session, and says so.
        Request probe = Request.cancel(UUID.randomUUID().toString(), "0");
        try {
            check(server, probe);
        } catch (CompletionException e) {
            throw RlockMissingException.because(Server.cause(e));
        }
        return server;
    }

    private static void check(Server server, Request probe) {
        // By way of a key first, which makes a client connect that was told to be lazy.
        answered(() -> server.repeatably("rlock", probe).join());
        for (MasterSlaveEntry master : server.masters()) {
            answered(() -> server.repeatably(master, probe).join());
        }
    }

    private static void answered(Runnable ask) {
        try {
            ask.run();
        } catch (CompletionException e) {
            if (!Server.isReply(e, "NOSESSION")) {
                throw e;
            }
        }
    }
}
