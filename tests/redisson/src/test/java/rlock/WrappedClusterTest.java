package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.redisson.api.RLock;
import rlock.redisson.RedissonLocks;

/** A cluster changes while one client holds a lock, another waits for it, and both take turns at a second one. */
class WrappedClusterTest {
    private static final int TURNS_BETWEEN = 20;

    private final CompletableFuture<Void> end = new CompletableFuture<>();
    private final AtomicInteger holders = new AtomicInteger();

    @Test
    void a_slot_moves_and_a_replica_takes_over_and_no_client_loses_a_lock() {
        Cluster cluster = Cluster.start();
        Node from = cluster.of("{orders}");
        Node to = cluster.nodes().stream().filter(node -> node != from).findFirst().orElseThrow();
        Node replica = cluster.withReplicaOf(to);
        // With leases as they are by default: a short one would end while writes are paused.
        List<RedissonLocks> clients = Stream.generate(() -> WrappedFleet.with(config -> config
                .setLockWatchdogTimeout(30_000).useClusterServers().addNodeAddress(to.address()).setScanInterval(200)))
                .limit(2).collect(Collectors.toList());
        try (Turns turns = new Turns()) {
            Waiter holder = Waiter.start(() -> hold(clients.get(0).getLock("{orders}:1")));
            Patience.until("one client holds it", () -> holders.get() == 1);
            Waiter waiter = Waiter.inAQueue(() -> hold(clients.get(1).getLock("{orders}:1")));
            clients.stream().map(client -> client.getLock("{orders}:2"))
                    .forEach(lock -> turns.begin(lock::lock, lock::unlock));
            turns.untilMore(TURNS_BETWEEN);
            cluster.move("{orders}", from, to);
            turns.untilMore(TURNS_BETWEEN);
            try (Native own = replica.client()) {
                own.say("CLUSTER FAILOVER");
                Patience.until(Duration.ofSeconds(60), "it has taken over",
                        () -> ("" + own.say("ROLE")).startsWith("[master"));
                turns.untilMore(TURNS_BETWEEN);
                assertEquals(1L, own.say("EXISTS {orders}:1"));
            }
            assertTrue(holder.isWaiting() && waiter.isWaiting());
            assertEquals(1, holders.get());
            end.complete(null);
            holder.grantedAt();
            waiter.grantedAt();
            turns.end();
        } finally {
            clients.forEach(WrappedFleet::end);
            cluster.stop();
        }
    }

    private void hold(RLock lock) {
        lock.lock();
        assertEquals(1, holders.incrementAndGet());
        end.join();
        assertTrue(lock.isHeldByCurrentThread());
        holders.decrementAndGet();
        lock.unlock();
    }
}
