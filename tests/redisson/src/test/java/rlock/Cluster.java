package rlock;

import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** Three masters, all slots among them. */
final class Cluster {
    private static final int SLOTS = 16_384;
    private static final int MASTERS = 3;

    private final List<Node> nodes;

    private Cluster(List<Node> nodes) {
        this.nodes = nodes;
    }

    static Cluster start() {
        List<Node> nodes = Stream.generate(() -> Node.start("--cluster-enabled", "yes", "--cluster-port",
                "" + Node.freePort(), "--cluster-node-timeout", "5000")).limit(MASTERS).collect(Collectors.toList());
        Cluster cluster = new Cluster(nodes);
        cluster.join();
        return cluster;
    }

    private void join() {
        Node first = nodes.get(0);
        String bus;
        try (Native client = first.client()) {
            bus = (String) ((List<?>) client.say("CONFIG GET cluster-port")).get(1);
        }
        IntStream.range(0, MASTERS).forEach(i -> {
            try (Native client = nodes.get(i).client()) {
                client.say("CLUSTER SET-CONFIG-EPOCH " + (i + 1));
                client.say("CLUSTER ADDSLOTSRANGE " + SLOTS * i / MASTERS + " " + (SLOTS * (i + 1) / MASTERS - 1));
                client.say("CLUSTER MEET 127.0.0.1 " + first.port() + " " + bus);
            }
        });
        nodes.forEach(node -> Patience.until("the cluster is whole", () -> isWhole(node)));
    }

    private static boolean isWhole(Node node) {
        try (Native client = node.client()) {
            String info = (String) client.say("CLUSTER INFO");
            return info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:" + MASTERS);
        }
    }

    List<Node> nodes() {
        return nodes;
    }

    /** The one that has a key's slot. */
    Node of(String key) {
        return nodes.stream().filter(node -> {
            try (Native client = node.client()) {
                client.run("EXISTS", key);
                return true;
            } catch (Native.Refused moved) {
                return false;
            }
        }).findFirst().orElseThrow();
    }

    void stop() {
        nodes.forEach(Node::stop);
    }
}
