package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.ByteArrayCodec;
import org.redisson.client.codec.Codec;
import org.redisson.client.codec.LongCodec;
import org.redisson.codec.SerializationCodec;

/** Which of Redisson's settings change what is shared. */
class SettingsTest {
    @AutoClose
    private final Native client = Node.shared().client();

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
}
