package rlock;

import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;

/** The Java side: Redisson's clients, by nothing but its public API; all of them wrapped, if that is what is tested. */
final class Fleet {
    /** Whether the locks are those of java/, on Redisson's keys. */
    static final boolean IS_WRAPPED = Boolean.getBoolean("rlock.wrapped");

    /** Short, so that tests can see several renewals; Redisson renews at a third of it. */
    static final long WATCHDOG_MS = 1_500;

    /** Longer than any pause of a loaded machine: no test here expects such a lease to end. */
    static final long LONG_MS = 60_000;

    private static RedissonClient shared;

    private Fleet() {
    }

    /** The one client on the shared server, for tests that need no settings of their own. */
    static synchronized RedissonClient shared() {
        if (shared == null) {
            shared = on(Node.shared().address());
        }
        return shared;
    }

    static RedissonClient on(String address) {
        return with(config -> config.useSingleServer().setAddress(address));
    }

    static RedissonClient with(Consumer<Config> settings) {
        return IS_WRAPPED ? wrap(plainWith(settings)) : plainWith(settings);
    }

    /** By its name, since not every version that is tested has the wrapper beside it. */
    private static RedissonClient wrap(RedissonClient redisson) {
        try {
            return (RedissonClient) Class.forName("rlock.redisson.Rlock").getMethod("wrap", RedissonClient.class)
                    .invoke(null, redisson);
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(e);
        }
    }

    /** Redisson as it is, whatever is tested. */
    static RedissonClient plainOn(String address) {
        return plainWith(config -> config.useSingleServer().setAddress(address));
    }

    static RedissonClient plainWith(Consumer<Config> settings) {
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE).setLockWatchdogTimeout(WATCHDOG_MS);
        settings.accept(config);
        return Redisson.create(config);
    }

    /** A client of a cluster that listens as on a single server, as all did before 3.22. */
    static RedissonClient listeningBySubscribe(String clusterAddress) {
        return plainWith(config -> {
            ClusterServersConfig cluster = config.useClusterServers().addNodeAddress(clusterAddress);
            if (Version.HAS_SHARDED_PUBSUB) {
                Setting.set(cluster, "ShardedSubscriptionMode", "OFF");
            }
        });
    }

    /** The holder id under which this client's locks are stored for a thread. */
    static String holder(RedissonClient client, long threadId) {
        return client.getId() + ":" + threadId;
    }

    static String holder(RedissonClient client) {
        return holder(client, Thread.currentThread().getId());
    }

    static void lock(RLock lock, long leaseMs, long threadId) {
        lock.lockAsync(leaseMs, TimeUnit.MILLISECONDS, threadId).toCompletableFuture().join();
    }

    static boolean tryLock(RLock lock, long leaseMs, long threadId) {
        return lock.tryLockAsync(0, leaseMs, TimeUnit.MILLISECONDS, threadId).toCompletableFuture().join();
    }

    static void unlock(RLock lock, long threadId) {
        lock.unlockAsync(threadId).toCompletableFuture().join();
    }

    /** Ends a client at once; its default is to be quiet for two seconds first. */
    static void end(RedissonClient client) {
        client.shutdown(0, 5, TimeUnit.SECONDS);
    }
}
