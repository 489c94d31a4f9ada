package rlock.redisson;

/** The reply to a request for a lock, if it was granted or has an answer. */
final class Grant {
    /** Null without fencing, and for several locks. */
    final Long token;

    /** The answer in place of the lock; null if the lock was granted. */
    final byte[] answer;

    Grant(Long token, byte[] answer) {
        this.token = token;
        this.answer = answer;
    }
}
