package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;

/**
 * Three masters and Redisson's cluster client. Unlocks are told by SPUBLISH there, as long as both sides do; a Redisson
 * that does not know it yet listens to PUBLISH, so the module has to be told to use that as well.
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
    void both_sides_share_plain_locks_and_wake_each_other(String name) {
        RLock lock = fleet.getLock(name);
        try (Native client = cluster.of(name).client()) {
            assertNull(client.say("RLOCK.ACQUIRE " + name + " other 60000"));
            assertEquals(false, lock.tryLock());
            Waiter java = Waiter.java(lock);
            assertEquals(1L, client.say("RLOCK.RELEASE " + name + " other"));
            java.grantedAt();
            wakesNative(client, name, "RLOCK.ACQUIRE", lock);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"rw:orders", "rw:stock", "rw:bills", "rw:a{b}c", "{rw:x}"})
    void both_sides_share_read_write_locks_and_wake_each_other(String name) {
        RReadWriteLock lock = fleet.getReadWriteLock(name);
        try (Native client = cluster.of(name).client()) {
            assertNull(client.say("RLOCK.RACQUIRE " + name + " other 60000"));
            lock.readLock().lock(Fleet.LONG_MS, TimeUnit.MILLISECONDS);
            lock.readLock().unlock();
            Waiter writer = Waiter.java(lock.writeLock());
            assertEquals(1L, client.say("RLOCK.RELEASE " + name + " other"));
            writer.grantedAt();
            assertNull(client.say("RLOCK.WACQUIRE " + name + " other 60000"));
            Waiter reader = Waiter.java(lock.readLock());
            assertEquals(1L, client.say("RLOCK.RELEASE " + name + " other"));
            reader.grantedAt();
            wakesNative(client, name, "RLOCK.WACQUIRE", lock.readLock());
        }
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

    /** What a fleet meets whose older services listen by SUBSCRIBE: auto does not reach them, both does. */
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

    @Test
    void auto_does_not_reach_java_that_listens_by_subscribe() {
        RedissonClient plain = Fleet.listeningBySubscribe(cluster.nodes().get(0).address());
        notify("auto");
        try (Native client = cluster.of("deaf").client()) {
            assertNull(client.say("RLOCK.ACQUIRE deaf other 2000"));
            long end = client.number("PEXPIRETIME deaf");
            Waiter java = Waiter.listening(plain.getLock("deaf"));
            client.say("RLOCK.RELEASE deaf other");
            java.grantedAt();
            // Its timer goes by another clock than the lease.
            long early = end - System.currentTimeMillis();
            assertTrue(early < 50, () -> "it was woken, " + early + " ms before the end");
        } finally {
            notify(Version.HAS_SHARDED_PUBSUB ? "auto" : "both");
            Fleet.end(plain);
        }
    }

    /** Redisson sends its script with keys of two slots, and fails too. */
    @Test
    void a_name_whose_companions_are_in_another_slot_is_refused_by_both() {
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

    private static void wakesNative(Native client, String name, String acquire, RLock lock) {
        lock.lock(Fleet.LONG_MS, TimeUnit.MILLISECONDS);
        Waiter waiter = Waiter.rlock(cluster.of(name), acquire + " " + name + " other 60000 WAIT 0");
        lock.unlock();
        waiter.grantedAt();
        assertEquals(1L, client.say("RLOCK.RELEASE " + name + " other"));
    }
}
