package rlock.redisson;

/**
 * A lock was lost while its holder still counted on it. If that was during the work, what the work threw is suppressed in
 * this exception. If it was before the unlock, this is the cause of the IllegalMonitorStateException.
 */
public final class LockLostException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final transient LostLock lost;

    /** Outlives serialization. */
    private final LossReason reason;

    LockLostException(LostLock lost) {
        super(lost.toString(), lost.getCause().orElse(null));
        this.lost = lost;
        reason = lost.getReason();
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
     * Which lock was lost, and why.
     *
     * @return null after this was serialized
     */
    public LostLock getLost() {
        return lost;
    }
}
