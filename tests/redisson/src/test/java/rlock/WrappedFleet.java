package rlock;

import java.util.function.Consumer;
import org.redisson.config.Config;
import rlock.redisson.RedissonLocks;

/** The Java side by java/: locks, each with a client of its own. */
final class WrappedFleet {
    private static RedissonLocks shared;

    private WrappedFleet() {
    }

    /** The locks of the one client on the shared server, for tests that need no settings of their own. */
    static synchronized RedissonLocks shared() {
        if (shared == null) {
            shared = on(Node.shared().address());
        }
        return shared;
    }

    static RedissonLocks on(String address) {
        return with(config -> config.useSingleServer().setAddress(address));
    }

    static RedissonLocks with(Consumer<Config> settings) {
        return RedissonLocks.of(Fleet.plainWith(settings));
    }

    static void end(RedissonLocks locks) {
        Fleet.end(locks.getRedisson());
    }
}
