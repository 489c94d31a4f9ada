package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.client.RedisException;

/** Threads that take turns at a lock while its servers change. Each may fail now and then; two may never be inside. */
final class Turns implements AutoCloseable {
    private final Crew crew = new Crew();
    private final AtomicInteger inside = new AtomicInteger();
    private final AtomicInteger overlaps = new AtomicInteger();
    private final AtomicInteger turns = new AtomicInteger();
    private final AtomicBoolean isOver = new AtomicBoolean();

    void begin(Runnable lock, Runnable unlock) {
        crew.start(() -> {
            try (Native own = Node.shared().client()) {
                while (!isOver.get()) {
                    try {
                        lock.run();
                        stay(own);
                        unlock.run();
                    } catch (RedisException | IllegalMonitorStateException atTheChange) {
                        // A reply may get lost with a connection, and a lock with its master.
                    }
                }
            }
        });
    }

    private void stay(Native own) {
        overlaps.addAndGet(inside.getAndIncrement());
        for (int i = 0; i < 10; i++) {
            own.say("PING");
        }
        inside.decrementAndGet();
        turns.incrementAndGet();
    }

    /** Servers agree in steps, and a busy machine takes its time for each. */
    void untilMore(int number) {
        int before = turns.get();
        Patience.until(Duration.ofSeconds(60), "the lock goes around", () -> turns.get() > before + number);
    }

    void end() {
        isOver.set(true);
        crew.finish();
        assertEquals(0, overlaps.get(), "times that two were inside");
    }

    @Override
    public void close() {
        isOver.set(true);
        crew.close();
    }
}
