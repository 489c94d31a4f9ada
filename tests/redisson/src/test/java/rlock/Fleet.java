package rlock;

import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;

/** The Java side: Redisson's clients, by its public API only, and with the locks of java/ if these are tested. */
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

    /**
     * Gives the client the locks of java/, so that one test serves both. They are found by their names, since not every
     * version that is tested comes with java/.
     */
    static RedissonClient wrap(RedissonClient redisson) {
        try {
            Object locks = Class.forName("rlock.redisson.RedissonLocks").getMethod("of", RedissonClient.class)
                    .invoke(null, redisson);
            Map<String, Method> getters = Arrays.stream(RedissonClient.class.getMethods())
                    .filter(method -> method.getName().matches("get(Fenced|ReadWrite|Multi|)Lock"))
                    .flatMap(method -> Arrays.stream(locks.getClass().getInterfaces()[0].getMethods())
                            .filter(own -> signature(own).equals(signature(method))))
                    .collect(Collectors.toMap(Fleet::signature, own -> own));
            return (RedissonClient) Proxy.newProxyInstance(Fleet.class.getClassLoader(),
                    new Class<?>[] {RedissonClient.class}, (self, method, arguments) -> {
                        Method own = getters.get(signature(method));
                        return own == null ? method.invoke(redisson, arguments) : own.invoke(locks, arguments);
                    });
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(e);
        }
    }

    private static String signature(Method method) {
        return method.getName() + Arrays.toString(method.getParameterTypes());
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
