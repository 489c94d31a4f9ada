package rlock.redisson;

import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The observers of a client's locks, and the listeners for its losses. A failure of one of them changes nothing. */
final class Observers implements LockObserver {
    private static final Logger log = LoggerFactory.getLogger(RedissonLocks.class);

    private final List<LockObserver> all = new CopyOnWriteArrayList<>();
    private final Executor executor;

    /** @param executor where a listener may take as long as it likes */
    Observers(Executor executor) {
        this.executor = executor;
    }

    Runnable add(LockObserver observer) {
        all.add(Objects.requireNonNull(observer, "observer"));
        return () -> all.remove(observer);
    }

    /** Each registration is separate, even of the same listener. */
    Runnable listen(Consumer<LostLock> listener) {
        Objects.requireNonNull(listener, "listener");
        return add(new LockObserver() {
            @Override
            public void lost(LostLock lost) {
                executor.execute(() -> safely(() -> listener.accept(lost)));
            }
        });
    }

    @Override
    public void waited(String name, Duration time, boolean isGranted) {
        all.forEach(observer -> safely(() -> observer.waited(name, time, isGranted)));
    }

    @Override
    public void held(String name, Duration time) {
        all.forEach(observer -> safely(() -> observer.held(name, time)));
    }

    @Override
    public void lost(LostLock lost) {
        log.warn("{} (thread {})", lost, lost.getThreadId());
        all.forEach(observer -> safely(() -> observer.lost(lost)));
    }

    private static void safely(Runnable call) {
        try {
            call.run();
        } catch (RuntimeException e) {
            log.error("An observer of locks failed", e);
        }
    }
}
