package rlock.spring;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import rlock.redisson.LockObserver;
import rlock.redisson.LossReason;
import rlock.redisson.LostLock;
import rlock.redisson.RedissonLocks;

/**
 * The timers {@code rlock.wait} (with the tag {@code outcome}: {@code granted} or {@code refused}) and {@code
 * rlock.held}, and the counter {@code rlock.lost} (with the tag {@code reason}).
 */
public final class RlockMetrics implements MeterBinder, AutoCloseable {
    private final List<RedissonLocks> all;
    private final boolean withNames;
    private final Queue<Runnable> ends = new ConcurrentLinkedQueue<>();

    /**
     * Metrics of these locks.
     *
     * @param all the locks: their waits, holds and losses are measured
     * @param withNames whether each metric has the lock's name as its tag {@code lock}
     */
    public RlockMetrics(List<RedissonLocks> all, boolean withNames) {
        this.all = List.copyOf(all);
        this.withNames = withNames;
    }

    @Override
    public void bindTo(MeterRegistry registry) {
        // A mock in a test returns null.
        all.forEach(locks -> Optional.ofNullable(locks.observe(new Measures(registry))).ifPresent(ends::add));
        if (!withNames) {
            // The metrics are there before anything happens, so that a rate has a beginning.
            registry.timer("rlock.wait", "outcome", "granted");
            registry.timer("rlock.wait", "outcome", "refused");
            registry.timer("rlock.held");
            for (LossReason reason : LossReason.values()) {
                registry.counter("rlock.lost", "reason", reason.word());
            }
        }
    }

    @Override
    public void close() {
        ends.forEach(Runnable::run);
    }

    private Tags tags(String lock) {
        return withNames ? Tags.of("lock", lock) : Tags.empty();
    }

    private final class Measures implements LockObserver {
        private final MeterRegistry registry;

        Measures(MeterRegistry registry) {
            this.registry = registry;
        }

        @Override
        public void waited(String name, Duration time, boolean isGranted) {
            registry.timer("rlock.wait", tags(name).and("outcome", isGranted ? "granted" : "refused")).record(time);
        }

        @Override
        public void held(String name, Duration time) {
            registry.timer("rlock.held", tags(name)).record(time);
        }

        @Override
        public void lost(LostLock lost) {
            registry.counter("rlock.lost", tags(lost.getName()).and("reason", lost.getReason().word())).increment();
        }
    }
}
