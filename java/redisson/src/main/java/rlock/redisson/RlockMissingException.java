package rlock.redisson;

import org.redisson.client.RedisException;

/** A master does not know the RLOCK commands, or lacks one that is needed. */
public class RlockMissingException extends RedisException {
    private static final long serialVersionUID = 1;

    RlockMissingException(String message, Throwable cause) {
        super(message, cause);
    }

    /** The same, and any other error as it is. */
    static Throwable of(Throwable error) {
        return Server.isReply(error, "ERR unknown command") ? because(error) : error;
    }

    /** Of an answer that is not the expected one; any other trouble stays what it is. */
    static RedisException because(Throwable answer) {
        if (Server.isReply(answer, "ERR unknown command")) {
            return new RlockMissingException("a server has not loaded the rlock module, or one that is too old: "
                    + answer.getMessage(), answer);
        }
        return answer instanceof RedisException ? (RedisException) answer : new RedisException(answer);
    }
}
