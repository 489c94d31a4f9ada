package rlock.redisson;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Who measures the locks of a client. One that fails changes nothing. */
final class Observers implements LockObserver {
    private static final Logger log = LoggerFactory.getLogger(RedissonLocks.class);

    private final List<LockObserver> all = new CopyOnWriteArrayList<>();

    Runnable add(LockObserver observer) {
        all.add(observer);
        return () -> all.remove(observer);
    }

    @Override
    public void waited(String name, Duration time, boolean isGranted) {
        tell(observer -> observer.waited(name, time, isGranted));
    }

    @Override
    public void held(String name, Duration time) {
        tell(observer -> observer.held(name, time));
    }

    @Override
    public void lost(LostLock lost) {
        tell(observer -> observer.lost(lost));
    }

    private void tell(Consumer<LockObserver> what) {
        for (LockObserver observer : all) {
            try {
                what.accept(observer);
            } catch (RuntimeException e) {
                log.error("An observer of locks failed", e);
            }
        }
    }
}
