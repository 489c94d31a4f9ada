package rlock;

import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * How long this machine has stalled: a thread takes naps and adds up by how much they were too long. A nap that is late
 * by less than its own length does not count, as that is usual.
 */
final class Stalls implements AutoCloseable {
    private static final long NAP_NANOS = 5_000_000;

    private final AtomicLong nanos = new AtomicLong();
    private final AtomicLong naps = new AtomicLong();
    private final Thread sleeper = new Thread(this::nap);

    Stalls() {
        sleeper.setDaemon(true);
        sleeper.start();
    }

    private void nap() {
        while (!Thread.interrupted()) {
            long due = System.nanoTime() + NAP_NANOS;
            LockSupport.parkNanos(NAP_NANOS);
            long late = System.nanoTime() - due;
            nanos.addAndGet(late > NAP_NANOS ? late : 0);
            naps.incrementAndGet();
        }
    }

    /** All since the start. The nap that goes on may be too long, too, so it ends first. */
    long ms() {
        long before = naps.get();
        Patience.until("a nap ends", () -> naps.get() > before);
        return nanos.get() / 1_000_000;
    }

    @Override
    public void close() {
        sleeper.interrupt();
    }
}
