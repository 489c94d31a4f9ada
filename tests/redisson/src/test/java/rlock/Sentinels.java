package rlock;

import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Three sentinels over a master and its replica, which change places on request. As always with
 * sentinels, the old master is demoted only after the new one is there: for a while both of them are masters.
 */
final class Sentinels {
    static final String MASTER = "main";

    /** Sentinels check and report far more often than by default, so that a test need not wait for them. */
    private static final String HURRY = "SENTINEL DEBUG INFO-PERIOD 200 PING-PERIOD 200 ASK-PERIOD 200 "
            + "PUBLISH-PERIOD 1000 TILT-TRIGGER 60000";

    /** Sentinels agree in steps, and may have to repeat each. */
    private static final Duration UNTIL_AGREED = Duration.ofSeconds(90);

    private final List<Node> sentinels;
    private Node master = Node.start("--repl-diskless-sync-delay", "0");
    private Node replica =
            Node.start("--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1", "" + master.port());

    Sentinels() {
        String config = "sentinel monitor " + MASTER + " 127.0.0.1 " + master.port() + " 2\n";
        sentinels = Stream.generate(() -> Node.sentinel(config)).limit(3).collect(Collectors.toList());
        for (Node sentinel : sentinels) {
            try (Native client = sentinel.client()) {
                client.say(HURRY);
                Patience.until("the sentinels know each other", () -> {
                    String info = "" + client.say("INFO sentinel");
                    return info.contains("slaves=1,sentinels=3");
                });
            }
        }
    }

    String[] addresses() {
        return sentinels.stream().map(Node::address).toArray(String[]::new);
    }

    Node master() {
        return master;
    }

    /** Returns once both are masters. */
    void failOver() {
        try (Native sentinel = sentinels.get(0).client()) {
            Patience.until(UNTIL_AGREED, "a failover begins", () -> {
                try {
                    return "OK".equals(sentinel.say("SENTINEL FAILOVER " + MASTER));
                } catch (Native.Refused notYet) {
                    return false;
                }
            });
        }
        Patience.until(UNTIL_AGREED, "the replica is promoted", () -> says(replica, "role:master"));
        Node old = master;
        master = replica;
        replica = old;
    }

    /** Returns once the old master is demoted and all sentinels know: one that does not would undo it at the next failover. */
    void settle() {
        Patience.until(UNTIL_AGREED, "the old master follows", () -> says(replica, "master_link_status:up"));
        Patience.until(UNTIL_AGREED, "all sentinels know", () -> sentinels.stream().allMatch(this::knows));
    }

    private boolean knows(Node sentinel) {
        try (Native client = sentinel.client()) {
            return ("" + client.say("SENTINEL GET-MASTER-ADDR-BY-NAME " + MASTER)).contains("" + master.port())
                    && ("" + client.say("SENTINEL REPLICAS " + MASTER)).contains("role-reported, slave");
        }
    }

    /** Uses a new connection each time, since a sentinel closes all connections of a server when it changes its role. */
    private static boolean says(Node node, String line) {
        try (Native client = node.client()) {
            return ("" + client.say("INFO replication")).contains(line);
        } catch (UncheckedIOException closed) {
            return false;
        }
    }

    void stop() {
        sentinels.forEach(Node::stop);
        replica.stop();
        master.stop();
    }
}
