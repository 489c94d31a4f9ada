package rlock;

import org.redisson.api.RedissonClient;

/**
 * A service of the fleet that takes locks and then does nothing more, to be killed. Run as a JVM of its own; ends with
 * the one that started it, too.
 */
final class LockAndHang {
    private LockAndHang() {
    }

    /** The server's address, then the locks. */
    public static void main(String[] arguments) throws Exception {
        RedissonClient client = Fleet.on(arguments[0]);
        for (int i = 1; i < arguments.length; i++) {
            client.getLock(arguments[i]).lock();
        }
        System.out.println("locked");
        System.in.read();
        System.exit(1);
    }
}
