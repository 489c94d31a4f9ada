package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;
import org.redisson.client.codec.ByteArrayCodec;
import org.redisson.client.codec.Codec;
import org.redisson.client.codec.LongCodec;
import org.redisson.codec.SerializationCodec;

/** Which of Redisson's settings change what is shared. */
class SettingsTest {
    private final Native client = Node.shared().client();

    @AfterEach
    void disconnect() {
        client.close();
    }

    @Test
    void the_codec_does_not_matter() {
        for (Codec codec : List.of(LongCodec.INSTANCE, ByteArrayCodec.INSTANCE, new SerializationCodec())) {
            RedissonClient fleet = Fleet.with(config -> config.setCodec(codec).useSingleServer()
                    .setAddress(Node.shared().address()));
            fleet.getLock("codec").lock(Fleet.LONG_MS, TimeUnit.MILLISECONDS);
            fleet.getReadWriteLock("codec:rw").readLock().lock(Fleet.LONG_MS, TimeUnit.MILLISECONDS);
            String me = Fleet.holder(fleet);
            assertEquals(Map.of("NAME", "hash {" + me + "=1}"), Snapshot.of(client, "codec").values());
            assertEquals(Map.of("NAME", "hash {" + me + "=1, mode=read}",
                    "{NAME}:" + me + ":rwlock_timeout:1", "string 1"), Snapshot.of(client, "codec:rw").values());
            assertEquals(1L, client.say("RLOCK.RELEASE codec " + me));
            assertEquals(1L, client.say("RLOCK.RELEASE codec:rw " + me));
            Fleet.end(fleet);
        }
    }

    /** Native clients use the name that the mapper makes. */
    @Test
    void a_name_mapper_decides_the_keys_name() {
        assumeTrue(Version.HAS_NAME_MAPPER, "this Redisson has no name mapper");
        RedissonClient fleet = Fleet.with(config ->
                Setting.prefixNames(config.useSingleServer().setAddress(Node.shared().address()), "shop:"));
        RLock lock = fleet.getLock("mapped");
        lock.lock(Fleet.LONG_MS, TimeUnit.MILLISECONDS);
        assertEquals(0L, client.say("EXISTS mapped"));
        assertEquals(1L, client.say("RLOCK.RELEASE shop:mapped " + Fleet.holder(fleet)));
        assertNull(client.say("RLOCK.ACQUIRE shop:mapped other 60000"));
        Waiter waiter = Waiter.java(lock);
        assertEquals(1L, client.say("RLOCK.RELEASE shop:mapped other"));
        waiter.grantedAt();
        Fleet.end(fleet);
    }

    @Test
    void the_watchdogs_timeout_is_the_lease() {
        RLock lock = Fleet.shared().getLock("timeout");
        long before = System.currentTimeMillis();
        lock.lock();
        long end = client.number("PEXPIRETIME timeout");
        long after = System.currentTimeMillis();
        long began = end - Fleet.WATCHDOG_MS;
        assertTrue(before <= began && began <= after, "it began at " + began + ", not in " + before + " to " + after);
        lock.unlock();
    }

    /** With replicas, Redisson sends WAIT behind each lock and unlock. Who calls the commands can do the same. */
    @Test
    void redisson_waits_for_a_replica_and_native_clients_can() {
        withReplica((master, replica, fleet) -> {
            long before = waits(master);
            fleet.getLock("replicated").lock(Fleet.LONG_MS, TimeUnit.MILLISECONDS);
            assertTrue(waits(master) > before);
            assertEquals(1L, master.say("RLOCK.RELEASE replicated " + Fleet.holder(fleet)));
            assertNull(master.say("RLOCK.ACQUIRE replicated other 60000"));
            assertEquals(1L, master.say("WAIT 1 0"));
            try (Native follower = replica.client()) {
                assertEquals("1", follower.say("HGET replicated other"));
            }
        });
    }

    /** When no replica has it, Redisson gives the lock back and fails; a native client reads it in WAIT's reply. */
    @Test
    void redisson_fails_when_no_replica_acknowledges_and_native_clients_can() {
        assumeTrue(Version.CHECKS_SYNCED_REPLICAS, "this Redisson does not check what WAIT says");
        withReplica((master, replica, fleet) -> {
            replica.freeze();
            assertThrows(RedisException.class, () -> fleet.getLock("alone").lock(Fleet.LONG_MS, TimeUnit.MILLISECONDS));
            assertEquals(0L, master.say("EXISTS alone"));
            assertNull(master.say("RLOCK.ACQUIRE alone other 60000"));
            assertEquals(0L, master.say("WAIT 1 10"));
        });
    }

    interface Scene {
        void play(Native master, Node replica, RedissonClient fleet);
    }

    private static void withReplica(Scene scene) {
        Node master = Node.start("--repl-diskless-sync-delay", "0");
        Node replica = Node.start("--replicaof", "127.0.0.1", "" + master.port());
        try (Native own = master.client()) {
            Patience.until("the replica follows", () -> ("" + own.say("INFO replication")).contains("state=online"));
            RedissonClient fleet = Fleet.with(config -> {
                config.useMasterSlaveServers().setMasterAddress(master.address()).addSlaveAddress(replica.address())
                        .setRetryAttempts(1);
                if (Version.CHECKS_SYNCED_REPLICAS) {
                    Setting.set(config, "SlavesSyncTimeout", 100L);
                }
            });
            scene.play(own, replica, fleet);
            Fleet.end(fleet);
        } finally {
            replica.stop();
            master.stop();
        }
    }

    private static long waits(Native master) {
        String[] parts = master.say("INFO commandstats").toString().split("cmdstat_wait:calls=");
        return parts.length < 2 ? 0 : Long.parseLong(parts[1].split(",")[0]);
    }
}
