package rlock.redisson;

import java.util.Optional;

/** A lock that a thread still counted on, and that the server has given up or may have given up. */
public final class LostLock {
    private final String name;
    private final long threadId;
    private final Thread thread;
    private final LossReason reason;
    private final Throwable cause;

    LostLock(Hold.Id id, LossReason reason, Throwable cause) {
        this(id.name, id.thread, id.owner, reason, cause);
    }

    LostLock(String name, long threadId, Thread thread, LossReason reason, Throwable cause) {
        this.name = name;
        this.threadId = threadId;
        this.thread = thread;
        this.reason = reason;
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
     * Why it was lost.
     *
     * @return one of four reasons
     */
    public LossReason getReason() {
        return reason;
    }

    /**
     * What went wrong: the last renewal's error, or the server's answer about what is stored under the name.
     *
     * @return empty if the lock is {@link LossReason#NOT_HELD}, or its lease has {@link LossReason#ENDED}
     */
    public Optional<Throwable> getCause() {
        return Optional.ofNullable(cause);
    }

    @Override
    public String toString() {
        return name + ": lost: " + why();
    }

    private String why() {
        switch (reason) {
            case NOT_HELD:
                return "the server says that it is not held: it was broken, deleted or forgotten";
            case OVERWRITTEN:
                return "its name now stores something else (" + cause.getMessage() + ")";
            case NOT_RENEWED:
                return "the lease could not be renewed: " + cause.getMessage();
            default:
                return "the lease has ended";
        }
    }
}
