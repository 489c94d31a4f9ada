package rlock;

import java.util.ArrayList;
import java.util.List;
import rlock.redisson.RedissonLocks;

/**
 * A service with a wrapped client, to be killed or stopped: it takes the first lock, says so, waits for the second, if
 * there is one, and says what it loses. Run as a JVM of its own; ends with the one that started it, too.
 */
final class WrappedService {
    private WrappedService() {
    }

    static Process start(Node node, String... names) throws Exception {
        List<String> command = new ArrayList<>(List.of(ProcessHandle.current().info().command().orElseThrow(), "-cp",
                System.getProperty("java.class.path"), "-Dredisson.version=" + System.getProperty("redisson.version"),
                "-Drlock.wrapped=true", WrappedService.class.getName(), node.address()));
        command.addAll(List.of(names));
        return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start();
    }

    /** The server's address, then the locks. */
    public static void main(String[] arguments) throws Exception {
        RedissonLocks locks = WrappedFleet.on(arguments[0]);
        locks.onLost(lost -> System.out.println("lost " + lost.getName()));
        locks.getLock(arguments[1]).lock();
        System.out.println("locked");
        if (arguments.length > 2) {
            Thread waits = new Thread(() -> locks.getLock(arguments[2]).lock());
            waits.setDaemon(true);
            waits.start();
        }
        System.in.read();
        System.exit(1);
    }
}
