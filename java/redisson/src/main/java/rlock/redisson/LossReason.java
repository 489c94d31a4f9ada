package rlock.redisson;

/** Why a lock was lost. Clients of all languages tell these four apart. */
public enum LossReason {
    /** The server says that it is not held: it was broken, deleted, or forgotten by a restart or a failover. */
    NOT_HELD("not-held"),
    /** Something else is stored under its name. */
    OVERWRITTEN("overwritten"),
    /** The lease ended because no renewal came through. */
    NOT_RENEWED("not-renewed"),
    /** The lease ended and no renewal had failed: it was a lease of its own, or the program or its machine stalled. */
    ENDED("ended");

    private final String word;

    LossReason(String word) {
        this.word = word;
    }

    /**
     * The reason as it is called in all languages, for logs and metrics.
     *
     * @return such as {@code not-held}
     */
    public String word() {
        return word;
    }
}
