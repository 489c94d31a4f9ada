package rlock.redisson;

import java.util.Optional;

/** A lock that a thread still counted on, and that the server has given up or may have given up. */
public final class LostLock {
    private final String name;
    private final long threadId;
    private final Thread thread;
    private final Throwable cause;

    LostLock(Hold.Id id, Throwable cause) {
        this(id.name, id.thread, id.owner, cause);
    }

    LostLock(String name, long threadId, Thread thread, Throwable cause) {
        this.name = name;
        this.threadId = threadId;
        this.thread = thread;
        this.cause = cause;
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
     * The holder.
     *
     * @return the thread's id, or the one that was given to {@code lockAsync}
     */
    public long getThreadId() {
        return threadId;
    }

    /**
     * The thread that took it.
     *
     * @return empty if another thread took it in its name
     */
    public Optional<Thread> getThread() {
        return Optional.ofNullable(thread);
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
