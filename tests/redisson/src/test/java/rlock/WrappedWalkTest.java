package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;

/**
 * The steps of docs/operations.md by which a replica takes over behind sentinels, followed line by line, with a holder, a
 * waiter, and a lock that goes around. What comes behind them restarts a server that has no clients any more.
 */
class WrappedWalkTest {
    private static final int TURNS_BEFORE_AND_AFTER = 20;

    /** Sentinels agree in steps, and a busy machine takes its time for each. */
    private static final Duration LONG = Duration.ofSeconds(60);

    private final Sentinels sentinels = new Sentinels();
    private final List<String> told = new CopyOnWriteArrayList<>();
    private final AtomicInteger inside = new AtomicInteger();
    private final AtomicInteger overlaps = new AtomicInteger();
    private final AtomicInteger turns = new AtomicInteger();
    private final AtomicBoolean isOver = new AtomicBoolean();

    @Test
    @Timeout(180)
    void a_replica_takes_over_and_nobody_loses_a_lock() {
        List<RedissonClient> clients = Stream.generate(this::client).limit(2).toList();
        try (Crew crew = new Crew()) {
            CountDownLatch walked = new CountDownLatch(1);
            crew.start(() -> {
                RLock lock = clients.get(0).getLock("orders:1");
                lock.lock();
                told.add("holder in");
                walked.await();
                assertTrue(lock.isHeldByCurrentThread());
                told.add("holder out");
                lock.unlock();
            });
            Patience.until("it holds", () -> !told.isEmpty());
            crew.start(() -> {
                RLock lock = clients.get(1).getLock("orders:1");
                lock.lock();
                told.add("waiter in");
                lock.unlock();
            });
            Patience.until("it waits", () -> waiters() == 1);
            clients.forEach(client -> crew.start(() -> takeTurns(client.getLock("orders:2"))));
            untilItGoesAround();
            int replica = replica();
            steps().forEach(line -> follow(line, replica));
            untilItGoesAround();
            assertEquals(List.of("holder in"), told);
            try (Native successor = new Native(replica)) {
                assertEquals(1L, successor.say("EXISTS orders:1"));
            }
            walked.countDown();
            Patience.until("the waiter has it", () -> told.contains("waiter in"));
            isOver.set(true);
            crew.finish();
        } finally {
            isOver.set(true);
            clients.forEach(Fleet::end);
            sentinels.stop();
        }
        assertEquals(List.of("holder in", "holder out", "waiter in"), told);
        assertEquals(0, overlaps.get(), "times that two were inside");
    }

    /** With leases as they are by default: a short one would end while writes are paused. */
    private RedissonClient client() {
        return Fleet.with(config -> config.setLockWatchdogTimeout(30_000).useSentinelServers()
                .setMasterName(Sentinels.MASTER).addSentinelAddress(sentinels.addresses()).setScanInterval(200));
    }

    private long waiters() {
        try (Native master = sentinels.master().client()) {
            return Long.parseLong(("" + master.say("INFO rlock")).split("rlock_waiters:")[1].split("\r\n")[0]);
        }
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

    private static List<String> steps() {
        try {
            String page = Files.readString(Path.of(System.getProperty("basedir"), "..", "..", "docs", "operations.md"));
            List<String> steps = page.split("\n```sh sentinels\n")[1].split("\n```")[0].lines()
                    .takeWhile(line -> !line.startsWith("sudo ")).toList();
            assertTrue(steps.size() >= 5, "" + steps);
            return steps;
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private int sentinel() {
        return Integer.parseInt(sentinels.addresses()[0].replaceAll(".*:", ""));
    }

    private int replica() {
        try (Native sentinel = new Native(sentinel())) {
            // A busy machine keeps a sentinel from what it knows: it is to count for longer.
            sentinel.say("SENTINEL DEBUG INFO-PERIOD 2000");
            String replicas = "" + sentinel.say("SENTINEL REPLICAS " + Sentinels.MASTER);
            return Integer.parseInt(replicas.split("port, ")[1].split(",")[0]);
        }
    }

    /** {@code redis-cli -h HOST [-p PORT] COMMAND  # until: WORDS}, on the hosts that these tests have. */
    private void follow(String line, int replica) {
        String[] parts = line.split(" +# until: ");
        String command = parts[0].replace("10.0.0.2 6379", "127.0.0.1 " + replica).replace(" locks", " " + Sentinels.MASTER);
        int port = command.startsWith("redis-cli -h 10.0.0.1 -p 26379 ") ? sentinel() : sentinels.master().port();
        String asked = command.replaceFirst("^redis-cli -h 10\\.0\\.0\\.1( -p 26379)? ", "");
        assertTrue(!asked.startsWith("redis-cli"), line);
        if (parts.length == 1) {
            assertTrue(says(port, asked).contains("OK"), line);
        } else {
            String words = parts[1].replace("10.0.0.2", "" + replica);
            Patience.until(LONG, line, () -> says(port, asked).contains(words));
        }
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
