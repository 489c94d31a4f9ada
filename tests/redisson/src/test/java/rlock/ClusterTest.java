package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/**
 * Three masters and Redisson's cluster client. Unlocks are published by SPUBLISH there, as long as both sides do; an older
 * Redisson listens to PUBLISH, so the module has to be set to use that as well.
 */
class ClusterTest {
    private static Cluster cluster;
    private static RedissonClient fleet;

    /** Redisson as it is, since a wrapped lock listens to nothing. */
    private static RedissonClient listening;

    @BeforeAll
    static void start() {
        cluster = Cluster.start();
        fleet = Fleet.with(config -> config.useClusterServers().addNodeAddress(cluster.nodes().get(0).address()));
        listening = Fleet.plainWith(config ->
                config.useClusterServers().addNodeAddress(cluster.nodes().get(0).address()));
        if (!Version.HAS_SHARDED_PUBSUB) {
            notify("both");
        }
    }

    @AfterAll
    static void stop() {
        Fleet.end(fleet);
        Fleet.end(listening);
        cluster.stop();
    }

    /** In all three masters' slots, and with braces of all kinds. */
    @ParameterizedTest
    @ValueSource(strings = {"orders", "stock", "bills", "a{b}c", "{x}", "{x}y", "{a}{b}"})
    void both_sides_share_locks_and_wake_each_other(String name) {
        try (Native client = cluster.of(name).client()) {
            wakeEachOther(client, name, Side.Kind.PLAIN, Side.Kind.PLAIN);
            wakeEachOther(client, name, Side.Kind.READ, Side.Kind.WRITE);
            wakeEachOther(client, name, Side.Kind.WRITE, Side.Kind.READ);
        }
    }

    private static void wakeEachOther(Native client, String name, Side.Kind natives, Side.Kind javas) {
        RLock lock = javas.of(fleet, name);
        assertNull(client.say(natives.acquire + " " + name + " other 60000"));
        assertEquals(false, lock.tryLock());
        Waiter java = Waiter.java(lock);
        assertEquals(1L, client.say("RLOCK.RELEASE " + name + " other"));
        java.grantedAt();
        lock.lock(Fleet.LONG_MS, TimeUnit.MILLISECONDS);
        Waiter waiter = Waiter.rlock(cluster.of(name), natives.acquire + " " + name + " other 60000 WAIT 0");
        lock.unlock();
        waiter.grantedAt();
        assertEquals(1L, client.say("RLOCK.RELEASE " + name + " other"));
    }

    /** By default the module publishes as Redisson listens, from the version on that listens by SSUBSCRIBE. */
    @Test
    void auto_is_what_redisson_listens_to() {
        String name = "auto";
        try (Native client = cluster.of(name).client()) {
            assertNull(client.say("RLOCK.ACQUIRE auto other 60000"));
            Waiter java = Waiter.listening(listening.getLock(name));
            String how = Version.HAS_SHARDED_PUBSUB ? "SHARDNUMSUB" : "NUMSUB";
            assertEquals(1, listeners(how, "redisson_lock__channel:{auto}"));
            client.say("RLOCK.RELEASE auto other");
            java.grantedAt();
        }
    }

    private static int listeners(String how, String channel) {
        return cluster.nodes().stream().mapToInt(node -> {
            try (Native client = node.client()) {
                return ((Long) ((List<?>) client.say("PUBSUB " + how + " " + channel)).get(1)).intValue();
            } catch (Native.Refused moved) {
                return 0;
            }
        }).sum();
    }

    /** Older services of a fleet listen by SUBSCRIBE. What is sent by SPUBLISH alone does not reach them. */
    @Test
    void both_reaches_java_whichever_way_it_listens() {
        RedissonClient plain = Fleet.listeningBySubscribe(cluster.nodes().get(0).address());
        notify("both");
        try (Native client = cluster.of("both").client()) {
            for (RedissonClient each : List.of(listening, plain)) {
                assertNull(client.say("RLOCK.ACQUIRE both other 60000"));
                Waiter java = Waiter.listening(each.getLock("both"));
                client.say("RLOCK.RELEASE both other");
                java.grantedAt();
            }
        } finally {
            notify(Version.HAS_SHARDED_PUBSUB ? "auto" : "both");
            Fleet.end(plain);
        }
    }

    /** Redisson sends its script with keys of two slots, and fails too. */
    @Test
    void a_name_with_companions_in_another_slot_is_refused_by_both() {
        assertThrows(Exception.class, () -> fleet.getReadWriteLock("foo{").readLock().tryLock());
        try (Native client = cluster.of("foo{").client()) {
            assertThrows(Native.Refused.class, () -> client.say("RLOCK.RACQUIRE foo{ other 60000"));
        }
    }

    private static void notify(String how) {
        for (Node node : cluster.nodes()) {
            try (Native client = node.client()) {
                client.say("CONFIG SET rlock.notify " + how);
            }
        }
    }
}
