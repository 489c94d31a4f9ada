package rlock.redisson;

import java.time.Duration;

/** A lock was not granted within the time that its caller wanted to wait. */
public final class LockBusyException extends RuntimeException {
    private static final long serialVersionUID = 1;

    LockBusyException(String name, Duration wait) {
        super("lock " + name + " was not free within " + wait.toMillis() + " ms");
    }
}
