package rlock;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Threads that work at the same time; the first failure of any of them fails the test. */
final class Crew implements AutoCloseable {
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final List<Future<?>> work = new ArrayList<>();

    interface Task {
        void run() throws Exception;
    }

    Future<?> start(Task task) {
        Future<?> started = threads.submit((Callable<Void>) () -> {
            task.run();
            return null;
        });
        work.add(started);
        return started;
    }

    void finish() {
        for (Future<?> each : work) {
            try {
                each.get();
            } catch (InterruptedException | ExecutionException e) {
                throw new AssertionError(e.getCause() == null ? e : e.getCause());
            }
        }
    }

    @Override
    public void close() {
        threads.shutdownNow();
    }
}
