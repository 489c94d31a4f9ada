package rlock.redisson;

import org.redisson.client.RedisException;

/** A master does not know the RLOCK commands, or lacks one that is needed. */
public class RlockMissingException extends RedisException {
    private static final long serialVersionUID = 1;

    RlockMissingException(String message, Throwable cause) {
        super(message, cause);
    }

    /** This exception if the server lacks a command, or any other error as it is. */
    static Throwable of(Throwable error) {
        return Server.isReply(error, "ERR unknown command") ? because(error) : error;
    }

    /** For an answer that is not the expected one. Any other error stays as it is. */
    static RedisException because(Throwable answer) {
        if (Server.isReply(answer, "ERR unknown command")) {
            return new RlockMissingException("a server has not loaded the rlock module, or one that is too old: "
                    + answer.getMessage(), answer);
        }
        return answer instanceof RedisException ? (RedisException) answer : new RedisException(answer);
    }
}
