package rlock.sample;

import java.util.concurrent.atomic.AtomicInteger;
import net.javacrumbs.shedlock.spring.annotation.SchedulerLock;
import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.stereotype.Component;

/** One instance of the service runs the job each time; the others skip it. */
@Component
public class Nightly {
    private final AtomicInteger runs = new AtomicInteger();

    // snippet: shedlock
    @Scheduled(initialDelay = 0, fixedDelay = 86_400_000)
    @SchedulerLock(name = "nightly", lockAtLeastFor = "5m")
    public void run() {
        runs.incrementAndGet();
    }
    // end

    public int runs() {
        return runs.get();
    }
}
