package rlock.spring;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.Callable;
import org.redisson.api.RLock;
import org.springframework.transaction.TransactionExecution;
import org.springframework.transaction.TransactionExecutionListener;
import rlock.redisson.RedissonLocks;

/** The locks of this thread's {@link Locked} methods, which are checked again immediately before a commit. */
final class Held implements TransactionExecutionListener {
    private record Lock(RedissonLocks locks, RLock lock) {
        boolean isSure() {
            return !locks.isNative() || !locks.remaining(lock).isZero();
        }
    }

    private static final ThreadLocal<Deque<Lock>> held = ThreadLocal.withInitial(ArrayDeque::new);

    static <T> T during(RedissonLocks locks, RLock lock, Callable<T> work) throws Exception {
        held.get().push(new Lock(locks, lock));
        try {
            return work.call();
        } finally {
            held.get().pop();
            if (held.get().isEmpty()) {
                held.remove();
            }
        }
    }

    /** What this throws makes the transaction roll back. */
    @Override
    public void beforeCommit(TransactionExecution transaction) {
        for (Lock one : held.get()) {
            if (!one.isSure()) {
                throw new IllegalStateException("not committed: the lock " + one.lock.getName() + " may be lost");
            }
        }
    }
}
