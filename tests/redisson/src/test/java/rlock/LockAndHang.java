package rlock;

import org.redisson.api.RedissonClient;

/**
 * A service of the fleet that takes locks and then does nothing more, to be killed. Run as a JVM of its own; ends with
 * the one that started it, too.
 */
final class LockAndHang {
    /** Long enough for a test to see that it was killed before its leases end. */
    private static final long WATCHDOG_MS = 6_000;

    private LockAndHang() {
    }

    /** The server's address, then the locks. */
    public static void main(String[] arguments) throws Exception {
        RedissonClient client = Fleet.plainWith(config -> config.setLockWatchdogTimeout(WATCHDOG_MS)
                .useSingleServer().setAddress(arguments[0]));
        for (int i = 1; i < arguments.length; i++) {
            client.getLock(arguments[i]).lock();
        }
        System.out.println("locked");
        System.in.read();
        System.exit(1);
    }
}
