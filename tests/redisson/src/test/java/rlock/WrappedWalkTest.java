package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.redisson.api.RLock;
import org.redisson.client.RedisException;
import org.redisson.config.Config;
import rlock.redisson.RedissonLocks;

/**
 * The steps of docs/operations.md by which a replica takes over, behind sentinels and in a cluster, followed line by line,
 * with a holder, a waiter, and a lock that goes around. What comes behind them restarts a server that has no clients any
 * more. And a slot that moves, in the way of redis-cli and every operator.
 */
class WrappedWalkTest {
    private static final int TURNS_BEFORE_AND_AFTER = 20;

    /** Servers and sentinels agree in steps, and a busy machine takes its time for each. */
    private static final Duration LONG = Duration.ofSeconds(60);

    /** The hosts of the page. */
    private static final String MASTER = "10.0.0.1";
    private static final String SUCCESSOR = "10.0.0.2";

    /** A line of the page: the host, the command, the words to wait for, and whether the line above may be needed again. */
    private static final Pattern STEP = Pattern.compile(
            "redis-cli -h (\\S+(?: -p \\d+)?) (.*?)(?: +# until: (.*?)(; after 6 s the line above again)?)?");
    private static final Duration AGAIN = Duration.ofSeconds(6);

    private final List<String> told = new CopyOnWriteArrayList<>();
    private final AtomicInteger inside = new AtomicInteger();
    private final AtomicInteger overlaps = new AtomicInteger();
    private final AtomicInteger turns = new AtomicInteger();
    private final AtomicBoolean isOver = new AtomicBoolean();
    private final Map<String, Integer> ports = new HashMap<>();

    @Test
    @Timeout(180)
    void a_replica_behind_sentinels_takes_over_and_nobody_loses_a_lock() {
        Sentinels sentinels = new Sentinels();
        try {
            ports.put(MASTER, sentinels.master().port());
            ports.put(MASTER + " -p 26379", Integer.parseInt(sentinels.addresses()[0].replaceAll(".*:", "")));
            ports.put(SUCCESSOR, replica());
            walk(() -> follow("sentinels"), "orders:1", "orders:2", config -> config.useSentinelServers()
                    .setMasterName(Sentinels.MASTER).addSentinelAddress(sentinels.addresses()).setScanInterval(200));
        } finally {
            sentinels.stop();
        }
    }

    @Test
    @Timeout(180)
    void a_replica_of_a_cluster_takes_over_and_nobody_loses_a_lock() {
        Cluster cluster = Cluster.start();
        try {
            Node master = cluster.nodes().get(0);
            ports.put(MASTER, master.port());
            ports.put(SUCCESSOR, cluster.withReplicaOf(master).port());
            Iterator<String> names = IntStream.iterate(1, i -> i + 1).mapToObj(i -> "orders:" + i)
                    .filter(name -> cluster.of(name) == master).iterator();
            walk(() -> follow("cluster"), names.next(), names.next(), config -> config.useClusterServers()
                    .addNodeAddress(cluster.nodes().get(1).address()).setScanInterval(200));
        } finally {
            cluster.stop();
        }
    }

    @Test
    @Timeout(180)
    void a_slot_moves_and_nobody_loses_a_lock() {
        Cluster cluster = Cluster.start();
        try {
            Node from = cluster.of("{orders}");
            Node to = cluster.nodes().stream().filter(node -> node != from).findFirst().orElseThrow();
            ports.put(MASTER, from.port());
            ports.put(SUCCESSOR, to.port());
            walk(() -> cluster.move("{orders}", from, to), "{orders}:1", "{orders}:2",
                    config -> config.useClusterServers().addNodeAddress(to.address()).setScanInterval(200));
        } finally {
            cluster.stop();
        }
    }

    private void walk(Runnable steps, String held, String shared, Consumer<Config> settings) {
        List<RedissonLocks> clients = Stream.generate(() -> client(settings)).limit(2).collect(Collectors.toList());
        try (Crew crew = new Crew()) {
            CountDownLatch walked = new CountDownLatch(1);
            crew.start(() -> {
                RLock lock = clients.get(0).getLock(held);
                lock.lock();
                told.add("holder in");
                walked.await();
                assertTrue(lock.isHeldByCurrentThread());
                told.add("holder out");
                lock.unlock();
            });
            Patience.until("it holds", () -> !told.isEmpty());
            crew.start(() -> {
                RLock lock = clients.get(1).getLock(held);
                lock.lock();
                told.add("waiter in");
                lock.unlock();
            });
            Patience.until("it waits", () -> says(ports.get(MASTER), "INFO rlock").contains("rlock_waiters:1\r\n"));
            clients.forEach(client -> crew.start(() -> takeTurns(client.getLock(shared))));
            untilItGoesAround();
            steps.run();
            untilItGoesAround();
            assertEquals(List.of("holder in"), told);
            assertEquals("1", says(ports.get(SUCCESSOR), "EXISTS " + held));
            walked.countDown();
            Patience.until("the waiter has it", () -> told.contains("waiter in"));
            isOver.set(true);
            crew.finish();
        } finally {
            isOver.set(true);
            clients.forEach(WrappedFleet::end);
        }
        assertEquals(List.of("holder in", "holder out", "waiter in"), told);
        assertEquals(0, overlaps.get(), "times that two were inside");
    }

    /** With leases as they are by default: a short one would end while writes are paused. */
    private static RedissonLocks client(Consumer<Config> settings) {
        return WrappedFleet.with(config -> settings.accept(config.setLockWatchdogTimeout(30_000)));
    }

    private void takeTurns(RLock lock) {
        try (Native own = Node.shared().client()) {
            while (!isOver.get()) {
                try {
                    lock.lock();
                    overlaps.addAndGet(inside.getAndIncrement());
                    for (int i = 0; i < 10; i++) {
                        own.say("PING");
                    }
                    inside.decrementAndGet();
                    turns.incrementAndGet();
                    lock.unlock();
                } catch (RedisException | IllegalMonitorStateException atTheFailover) {
                    // An answer may get lost with a connection; two inside may not be.
                }
            }
        }
    }

    private void untilItGoesAround() {
        int before = turns.get();
        Patience.until(LONG, "the lock goes around", () -> turns.get() > before + TURNS_BEFORE_AND_AFTER);
    }

    private static List<String> steps(String block) {
        try {
            String page = Files.readString(Path.of(System.getProperty("basedir"), "..", "..", "docs", "operations.md"));
            return page.split("\n```sh " + block + "\n")[1].split("\n```")[0].lines()
                    .takeWhile(line -> !line.startsWith("sudo ")).collect(Collectors.toList());
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private int replica() {
        int sentinel = ports.get(MASTER + " -p 26379");
        // A busy machine keeps a sentinel from what it knows: it is to count for longer.
        says(sentinel, "SENTINEL DEBUG INFO-PERIOD 2000");
        return Integer.parseInt(says(sentinel, "SENTINEL REPLICAS " + Sentinels.MASTER).split("port, ")[1].split(",")[0]);
    }

    private void follow(String block) {
        List<String> steps = steps(block);
        assertTrue(steps.size() >= 3, "" + steps);
        for (int i = 0; i < steps.size(); i++) {
            String line = steps.get(i);
            Matcher step = STEP.matcher(line);
            assertTrue(step.matches(), line);
            String words = step.group(3);
            if (words == null) {
                assertTrue(typed(step).contains("OK"), line);
                continue;
            }
            Matcher above = STEP.matcher(i == 0 ? line : steps.get(i - 1));
            AtomicLong since = new AtomicLong(System.nanoTime());
            Patience.until(LONG, line, () -> {
                if (typed(step).contains(words.replace(SUCCESSOR, "" + ports.get(SUCCESSOR)))) {
                    return true;
                }
                if (step.group(4) != null && System.nanoTime() - since.get() > AGAIN.toNanos() && above.matches()) {
                    typed(above);
                    since.set(System.nanoTime());
                }
                return false;
            });
        }
    }

    private String typed(Matcher step) {
        String command = step.group(2).replace(SUCCESSOR + " 6379", "127.0.0.1 " + ports.get(SUCCESSOR));
        return says(ports.get(step.group(1)), command.replace(" locks", " " + Sentinels.MASTER));
    }

    private static String says(int port, String command) {
        try (Native server = new Native(port)) {
            return "" + server.say(command);
        } catch (Native.Refused error) {
            // These servers come from no file, so that nothing can be written to it.
            return command.equals("CONFIG REWRITE") ? "OK" : error.getMessage();
        }
    }
}
