package rlock.redisson;

/** The reply to a request for a lock, if it was granted or has an answer. */
final class Grant {
    /** Null without fencing, and of several locks. */
    final Long token;

    /** In place of the lock; null if it was granted. */
    final byte[] answer;

    Grant(Long token, byte[] answer) {
        this.token = token;
        this.answer = answer;
    }
}
