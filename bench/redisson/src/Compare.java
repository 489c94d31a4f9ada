import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.Future;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Redisson's lock() and unlock() against the same by the RLOCK commands, in turns, in one JVM.
 *
 * <p>Arguments: the port of a plain server, the port of one with the module, rounds, milliseconds of a turn. Each sample
 * is a line of its own: what, who, and a number. The first round warms the JVM up and is not printed.
 */
public final class Compare {
  private static final int[] CROWDS = {8, 32};

  public static void main(String[] arguments) throws Exception {
    int plain = Integer.parseInt(arguments[0]);
    int native_ = Integer.parseInt(arguments[1]);
    int rounds = Integer.parseInt(arguments[2]);
    int millis = Integer.parseInt(arguments[3]);
    try (Sides sides = new Sides(plain, native_, CROWDS[CROWDS.length - 1])) {
      for (int round = 0; round <= rounds; round++) {
        boolean counts = round > 0;
        for (Locker side : List.of(sides.redisson.get(0), sides.commands.get(0))) {
          print(counts, "alone", side, alone(side, millis));
        }
        for (int crowd : CROWDS) {
          for (List<Locker> side : List.of(sides.redisson, sides.commands)) {
            print(counts, "contended." + crowd, side.get(0), contended(side.subList(0, crowd), millis));
          }
        }
      }
    }
    // Some clients' threads are slow to end.
    System.exit(0);
  }

  private static void print(boolean counts, String what, Locker side, double rate) {
    if (counts) {
      System.out.printf(java.util.Locale.ROOT, "%s %s %.1f%n", what, side.name(), rate);
      System.out.flush();
    }
  }

  /** Cycles per second of one client, each on another lock. */
  private static double alone(Locker locker, int millis) throws Exception {
    long start = System.nanoTime();
    long end = start + millis * 1_000_000L;
    int cycles = 0;
    while (System.nanoTime() < end) {
      locker.cycle("lock:" + cycles++);
    }
    return cycles / ((System.nanoTime() - start) / 1e9);
  }

  /** Cycles per second of many clients on one lock, each in a thread of its own. */
  private static double contended(List<Locker> lockers, int millis) throws Exception {
    String lock = "wanted by all:" + UUID.randomUUID();
    CyclicBarrier ready = new CyclicBarrier(lockers.size());
    ExecutorService threads = Executors.newFixedThreadPool(lockers.size());
    long[] span = {Long.MAX_VALUE, 0};
    try {
      List<Future<Integer>> works = new ArrayList<>();
      for (Locker locker : lockers) {
        works.add(threads.submit(() -> work(locker, lock, ready, millis, span)));
      }
      int cycles = 0;
      for (Future<Integer> work : works) {
        cycles += work.get();
      }
      return cycles / ((span[1] - span[0]) / 1e9);
    } finally {
      threads.shutdown();
    }
  }

  private static int work(Locker locker, String lock, CyclicBarrier ready, int millis, long[] span) throws Exception {
    ready.await();
    long start = System.nanoTime();
    long end = start + millis * 1_000_000L;
    int cycles = 0;
    while (System.nanoTime() < end) {
      locker.cycle(lock);
      cycles++;
    }
    synchronized (span) {
      span[0] = Math.min(span[0], start);
      span[1] = Math.max(span[1], System.nanoTime());
    }
    return cycles;
  }
}
