package rlock.redisson;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Who is told of the lost locks of a client. */
final class Losses {
    private static final Logger log = LoggerFactory.getLogger(RedissonLocks.class);

    private final List<Consumer<LostLock>> listeners = new CopyOnWriteArrayList<>();
    private final Executor executor;

    /** @param executor where a listener may take as long as it likes */
    Losses(Executor executor) {
        this.executor = executor;
    }

    Runnable listen(Consumer<LostLock> listener) {
        // Each registration is one of its own, even of the same listener.
        Consumer<LostLock> own = listener::accept;
        listeners.add(own);
        return () -> listeners.remove(own);
    }

    void tell(LostLock lost) {
        log.warn("{} (thread {})", lost, lost.getThreadId());
        for (Consumer<LostLock> listener : listeners) {
            executor.execute(() -> tell(listener, lost));
        }
    }

    private static void tell(Consumer<LostLock> listener, LostLock lost) {
        try {
            listener.accept(lost);
        } catch (RuntimeException e) {
            log.error("A listener for lost locks failed at {}", lost, e);
        }
    }
}
