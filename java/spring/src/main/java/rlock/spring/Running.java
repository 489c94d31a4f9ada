package rlock.spring;

import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.Callable;
import org.springframework.context.SmartLifecycle;

/**
 * The threads that run a {@link Locked} method, or wait for its lock. When the application closes, everything else that
 * Spring stops ends first: the web server's requests and the scheduled jobs. Then the threads that still run or wait
 * are interrupted, and Redisson is shut down only when they have released their locks, or after Spring's limit for a phase.
 */
final class Running implements SmartLifecycle {
    private final Set<Thread> threads = new HashSet<>();
    private volatile boolean isStarted;
    private Runnable whenNoneIsLeft = () -> { };

    <T> T during(Callable<T> work) throws Exception {
        if (!begins()) {
            return work.call();
        }
        try {
            return work.call();
        } finally {
            ends();
        }
    }

    /** @return false inside of another method with a lock */
    private synchronized boolean begins() {
        return threads.add(Thread.currentThread());
    }

    private synchronized void ends() {
        threads.remove(Thread.currentThread());
        if (threads.isEmpty()) {
            whenNoneIsLeft.run();
            whenNoneIsLeft = () -> { };
        }
    }

    @Override
    public synchronized void stop(Runnable callback) {
        isStarted = false;
        threads.forEach(Thread::interrupt);
        if (threads.isEmpty()) {
            callback.run();
        } else {
            whenNoneIsLeft = callback;
        }
    }

    @Override
    public void start() {
        isStarted = true;
    }

    @Override
    public void stop() {
        stop(() -> { });
    }

    @Override
    public boolean isRunning() {
        return isStarted;
    }

    /** The lowest phase is stopped last. */
    @Override
    public int getPhase() {
        return Integer.MIN_VALUE;
    }
}
