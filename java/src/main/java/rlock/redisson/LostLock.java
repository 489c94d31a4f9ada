package rlock.redisson;

import java.util.Optional;
import org.redisson.api.RedissonClient;

/** A lock that a thread still counted on, and that the server has given up or may have given up. */
public final class LostLock {
    private final RedissonClient client;
    private final String name;
    private final long threadId;
    private final Throwable cause;

    LostLock(RedissonClient client, String name, long threadId, Throwable cause) {
        this.client = client;
        this.name = name;
        this.threadId = threadId;
        this.cause = cause;
    }

    /**
     * The client by which it was taken.
     *
     * @return what {@link Rlock#wrap} returned
     */
    public RedissonClient getClient() {
        return client;
    }

    /**
     * The lock's name.
     *
     * @return as it was given to {@code getLock}
     */
    public String getName() {
        return name;
    }

    /**
     * Who held it.
     *
     * @return the thread's id, or the one that was given to {@code lockAsync}
     */
    public long getThreadId() {
        return threadId;
    }

    /**
     * Why the lease could not be renewed in time.
     *
     * @return empty if the server said that this thread does not hold the lock
     */
    public Optional<Throwable> getCause() {
        return Optional.ofNullable(cause);
    }

    @Override
    public String toString() {
        String why = cause == null
                ? "the server says that it is not held" : "not renewed in time: " + cause.getMessage();
        return "lock " + name + " of thread " + threadId + ": " + why;
    }
}
