import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.exceptions.JedisDataException;

/** Waiting by a session: many waits on one connection, and whatever becomes of that. */
class SessionsTest extends OnEachProtocol {
    private static final int LEASE = 600_000;
    private static final int LONG = 60_000; // longer than any test waits

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private Waits waits;

    @BeforeEach
    void open() {
        waits = new Waits(SERVER, config());
    }

    @AfterEach
    void closeWaits() {
        waits.close();
        threads.shutdownNow();
    }

    @Test
    void whatThePageShows() throws Exception {
        var server = SERVER;
        var config = config();
        // snippet: use
        try (var waits = new Waits(server, config)) {
            String holder = waits.acquire("orders:42", 30_000, 10_000);
            // …
            redis.sendCommand(Rlock.RELEASE, "orders:42", holder, "ALL");
        }
        // end
        assertEquals(List.of(), holders("orders:42"));
    }

    @Test
    void manyWaitsHaveOneConnectionAndAreServedInOrder() throws Exception {
        run(Rlock.ACQUIRE, "k", "ann", "600000");
        var all = new ArrayList<Future<String>>();
        while (all.size() < 50) all.add(begin(all.size() + 1));
        assertEquals(50, figure("tickets"));
        assertTrue(number(redis.info("clients"), "connected_clients") <= 1 + 1 + 8);
        String holder = "ann";
        for (var wait : all) {
            assertEquals(1L, run(Rlock.RELEASE, "k", holder, "ALL"));
            holder = soon(wait);
            assertEquals(List.of(holder), holders("k"));
        }
    }

    @Test
    void aWaitEndsWithItsTime() {
        run(Rlock.ACQUIRE, "k", "ann", "600000");
        assertThrows(TimeoutException.class, () -> waits.acquire("k", LEASE, 50));
        assertLeftTheQueue();
    }

    @Test
    void whoIsInterruptedLeavesTheQueue() throws Exception {
        run(Rlock.ACQUIRE, "k", "ann", "600000");
        var wait = begin(1);
        wait.cancel(true);
        assertLeftTheQueue();
    }

    @Test
    void anErrorIsThrown() {
        run(Rlock.RACQUIRE, "k", "ann", "600000");
        var error = assertThrows(JedisDataException.class, () -> waits.acquire("k", LEASE, LONG));
        assertTrue(error.getMessage().startsWith("WRONGKIND "));
    }

    @Test
    void placesOutliveTheConnection() throws Exception {
        run(Rlock.ACQUIRE, "k", "ann", "600000");
        var first = begin(1);
        long waited = figure("waits");
        endConnections();
        var second = begin(2);
        assertEquals(waited + 1, figure("waits"), "the first has kept its place");
        assertEquals(1L, run(Rlock.RELEASE, "k", "ann"));
        assertEquals(1L, run(Rlock.RELEASE, "k", soon(first), "ALL"));
        soon(second);
    }

    @Test
    void aSessionThatIsLostIsOpenedAgain() throws Exception {
        for (int lost = 0; lost < 2; lost++) {
            run(Rlock.ACQUIRE, "k", "ann", "600000");
            var wait = begin(1);
            run(Rlock.CANCEL, waits.session);
            endConnections();
            untilWaiting(1);
            assertEquals(1L, run(Rlock.RELEASE, "k", "ann"));
            assertEquals(1L, run(Rlock.RELEASE, "k", soon(wait), "ALL"));
        }
    }

    @Test
    void whoClosesEndsTheSession() throws Exception {
        run(Rlock.ACQUIRE, "k", "ann", "600000");
        var wait = begin(1);
        assertEquals(1L, run(Rlock.RELEASE, "k", "ann"));
        soon(wait);
        waits.close();
        var error = assertThrows(JedisDataException.class, () -> run(Rlock.CANCEL, waits.session));
        assertTrue(error.getMessage().startsWith("NOSESSION "));
    }

    /** A wait that is the last of so many. */
    private Future<String> begin(int number) {
        var wait = threads.submit(() -> waits.acquire("k", LEASE, LONG));
        untilWaiting(number);
        return wait;
    }

    private static String soon(Future<String> wait) throws InterruptedException, ExecutionException, TimeoutException {
        return wait.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    }

    private void endConnections() {
        redis.sendCommand(Protocol.Command.CLIENT, "KILL", "TYPE", "normal", "SKIPME", "yes");
    }

    private long figure(String name) {
        return number(redis.info("rlock"), "rlock_" + name);
    }

    private static long number(String info, String name) {
        var line = Pattern.compile("^" + name + ":(\\d+)", Pattern.MULTILINE).matcher(info);
        assertTrue(line.find(), name);
        return Long.parseLong(line.group(1));
    }

    /** Nobody waits any longer, and nobody is granted the lock when its holder releases it. */
    private void assertLeftTheQueue() {
        untilWaiting(0);
        assertEquals(1L, run(Rlock.RELEASE, "k", "ann"));
        assertEquals(List.of(), holders("k"));
    }
}
