package rlock;

import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import rlock.redisson.RedissonLocks;

/** A service as java/README.md has it under "Deploys": SIGTERM ends its work, and so releases its lock. */
final class WrappedDeploy {
    private WrappedDeploy() {
    }

    /** The server's address, then the lock. */
    public static void main(String[] arguments) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress(arguments[0]);
        RedissonClient redisson = Redisson.create(config);
        RedissonLocks locks = RedissonLocks.of(redisson);
        Thread worker = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            worker.interrupt();
            try {
                worker.join(TimeUnit.SECONDS.toMillis(10));
            } catch (InterruptedException e) {
                // A hook is not interrupted.
            }
            // Otherwise the exit code is 143, as after any SIGTERM.
            Runtime.getRuntime().halt(0);
        }));
        try {
            locks.call(locks.getLock(arguments[1]), WrappedDeploy::work);
        } catch (InterruptedException e) {
            // The hook interrupted it, while it waited or worked.
        } finally {
            redisson.shutdown();
        }
    }

    private static Void work() throws InterruptedException {
        System.out.println("held");
        Thread.sleep(Long.MAX_VALUE);
        return null;
    }
}
