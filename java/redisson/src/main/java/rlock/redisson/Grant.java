package rlock.redisson;

/** The answer to a request for a lock, if it was granted. */
final class Grant {
    /** Null without fencing, and of several locks. */
    final Long token;

    Grant(Long token) {
        this.token = token;
    }
}
