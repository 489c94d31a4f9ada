package rlock.redisson;

/** A lock was lost while the work ran that needed it. What the work threw then is suppressed in this. */
public final class LockLostException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final transient LostLock lost;

    LockLostException(LostLock lost) {
        super("lost during the work: " + lost, lost.getCause().orElse(null));
        this.lost = lost;
    }

    /**
     * Which one, and why.
     *
     * @return null after this was serialized
     */
    public LostLock getLost() {
        return lost;
    }
}
