import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.UUID;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * Redisson's lock() and unlock(), as it is and wrapped, against the same by the RLOCK commands, in turns, in one JVM.
 *
 * <p>Arguments: the port of a plain server, the port of one with the module, rounds, milliseconds of a turn. Each
 * sample is a line of its own: what, who, and a number. The first round warms the JVM up and is not printed.
 */
public final class Compare {
  private static final int[] CROWDS = {8, 32};
  private static final int THREADS = 200;

  private final int millis;
  private boolean counts;

  private Compare(int millis) {
    this.millis = millis;
  }

  public static void main(String[] arguments) throws Exception {
    int rounds = Integer.parseInt(arguments[2]);
    Compare compare = new Compare(Integer.parseInt(arguments[3]));
    int[] ports = {Integer.parseInt(arguments[0]), Integer.parseInt(arguments[1])};
    try (Sides sides = new Sides(ports[0], ports[1], CROWDS[CROWDS.length - 1], THREADS)) {
      for (int round = 0; round <= rounds; round++) {
        compare.counts = round > 0;
        compare.round(sides);
      }
    }
    // Some clients' threads are slow to end.
    System.exit(0);
  }

  private void round(Sides sides) throws Exception {
    for (Sides.Side side : sides.all) {
      measure("alone", side, side.processes().subList(0, 1), false);
    }
    for (int crowd : CROWDS) {
      for (Sides.Side side : sides.all) {
        measure("contended." + crowd, side, side.processes().subList(0, crowd), true);
      }
    }
    for (Sides.Side side : sides.all) {
      measure("threads." + THREADS, side, side.threads(), true);
    }
  }

  /** One turn: all of them on one lock, or each cycle on another. */
  private void measure(String what, Sides.Side side, List<Locker> lockers, boolean contended) throws Exception {
    try (Observer server = new Observer(side.port())) {
      double before = server.processorSeconds();
      Turn turn = new Turn(lockers, contended, millis);
      double used = server.processorSeconds() - before;
      print(what, side, turn.cycles / turn.seconds());
      print(what + ".processor", side, used * 1e6 / turn.cycles);
      print(what + ".longest", side, turn.longest / 1e6);
      if (what.startsWith("threads")) {
        print(what + ".connections", side, server.connections(side.name()));
      }
    }
  }

  private void print(String what, Sides.Side side, double number) {
    if (counts) {
      System.out.printf(Locale.ROOT, "%s %s %.1f%n", what, side.name(), number);
      System.out.flush();
    }
  }

  /** What some did together, each in a thread of its own, for so long. */
  private static final class Turn {
    private final boolean contended;
    private final int millis;
    private final CyclicBarrier ready;
    private final String lock = "wanted by all:" + UUID.randomUUID();
    private long start = Long.MAX_VALUE;
    private long end;
    int cycles;
    long longest;

    Turn(List<Locker> lockers, boolean contended, int millis) throws Exception {
      this.contended = contended;
      this.millis = millis;
      ready = new CyclicBarrier(lockers.size());
      ExecutorService threads = Executors.newFixedThreadPool(lockers.size());
      try {
        List<Future<?>> works = new ArrayList<>();
        for (Locker locker : lockers) {
          works.add(threads.submit(() -> {
            work(locker);
            return null;
          }));
        }
        for (Future<?> work : works) {
          work.get();
        }
      } finally {
        threads.shutdown();
      }
    }

    private void work(Locker locker) throws Exception {
      ready.await();
      long began = System.nanoTime();
      int done = 0;
      long slowest = 0;
      long now = began;
      while (now < began + millis * 1_000_000L) {
        locker.cycle(contended ? lock : lock + done);
        long after = System.nanoTime();
        slowest = Math.max(slowest, after - now);
        now = after;
        done++;
      }
      synchronized (this) {
        start = Math.min(start, began);
        end = Math.max(end, now);
        cycles += done;
        longest = Math.max(longest, slowest);
      }
    }

    double seconds() {
      return (end - start) / 1e9;
    }
  }
}
