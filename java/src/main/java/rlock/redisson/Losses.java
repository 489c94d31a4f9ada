package rlock.redisson;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Who is told of lost locks: one list for the process, since a service listens before it knows its clients. */
final class Losses {
    private static final Logger log = LoggerFactory.getLogger(Rlock.class);
    private static final List<Consumer<LostLock>> listeners = new CopyOnWriteArrayList<>();

    private Losses() {
    }

    static Runnable listen(Consumer<LostLock> listener) {
        // Each registration is one of its own, even of the same listener.
        Consumer<LostLock> own = listener::accept;
        listeners.add(own);
        return () -> listeners.remove(own);
    }

    /** Not on the thread that noticed: a listener may take as long as it likes. */
    static void tell(LostLock lost, Executor executor) {
        log.warn("Lost: {}", lost);
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
