package rlock;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** Three masters that share all slots; and a replica, if one is wanted. */
final class Cluster {
    private static final int SLOTS = 16_384;
    private static final int MASTERS = 3;

    private final List<Node> masters;
    private final List<Node> replicas = new ArrayList<>();

    private Cluster(List<Node> masters) {
        this.masters = masters;
    }

    static Cluster start() {
        List<Node> masters = Stream.generate(Cluster::node).limit(MASTERS).collect(Collectors.toList());
        Cluster cluster = new Cluster(masters);
        cluster.join();
        return cluster;
    }

    private static Node node() {
        return Node.start("--cluster-enabled", "yes", "--cluster-port", "" + Node.freePort(),
                "--cluster-node-timeout", "5000", "--repl-diskless-sync-delay", "0");
    }

    private void join() {
        IntStream.range(0, MASTERS).forEach(i -> {
            try (Native client = masters.get(i).client()) {
                client.say("CLUSTER SET-CONFIG-EPOCH " + (i + 1));
                client.say("CLUSTER ADDSLOTSRANGE " + SLOTS * i / MASTERS + " " + (SLOTS * (i + 1) / MASTERS - 1));
            }
            meet(masters.get(i));
        });
        untilWhole();
    }

    private void meet(Node node) {
        try (Native first = masters.get(0).client(); Native client = node.client()) {
            Object bus = ((List<?>) first.say("CONFIG GET cluster-port")).get(1);
            client.say("CLUSTER MEET 127.0.0.1 " + masters.get(0).port() + " " + bus);
        }
    }

    private void untilWhole() {
        Stream.concat(masters.stream(), replicas.stream())
                .forEach(node -> Patience.until("the cluster is whole", () -> isWhole(node)));
    }

    private boolean isWhole(Node node) {
        try (Native client = node.client()) {
            String info = (String) client.say("CLUSTER INFO");
            int known = masters.size() + replicas.size();
            return info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:" + known + "\r\n");
        }
    }

    /** Returns once it has everything that its master has, and all know that it is a replica. */
    Node withReplicaOf(Node master) {
        Node replica = node();
        replicas.add(replica);
        meet(replica);
        untilWhole();
        try (Native of = master.client(); Native client = replica.client()) {
            client.say("CLUSTER REPLICATE " + of.say("CLUSTER MYID"));
            Patience.until("it follows", () -> ("" + client.say("INFO replication")).contains("master_link_status:up"));
        }
        masters.forEach(node -> Patience.until("all know of it", () -> {
            try (Native client = node.client()) {
                return ("" + client.say("CLUSTER NODES")).contains(" slave ");
            }
        }));
        return replica;
    }

    /** The masters. */
    List<Node> nodes() {
        return masters;
    }

    /** The master that has a key's slot. */
    Node of(String key) {
        return masters.stream().filter(node -> {
            try (Native client = node.client()) {
                client.run("EXISTS", key);
                return true;
            } catch (Native.Refused moved) {
                return false;
            }
        }).findFirst().orElseThrow();
    }

    /** Moves a key's slot, with its keys. */
    void move(String key, Node from, Node to) {
        try (Native source = from.client(); Native target = to.client()) {
            String slot = " " + source.say("CLUSTER KEYSLOT " + key);
            target.say("CLUSTER SETSLOT" + slot + " IMPORTING " + source.say("CLUSTER MYID"));
            source.say("CLUSTER SETSLOT" + slot + " MIGRATING " + target.say("CLUSTER MYID"));
            Patience.until("all keys are there", () -> {
                List<?> keys = (List<?>) source.say("CLUSTER GETKEYSINSLOT" + slot + " 100");
                keys.forEach(each -> source.run("MIGRATE", "127.0.0.1", to.port(), each, 0, 5_000));
                return keys.isEmpty();
            });
            Object owner = target.say("CLUSTER MYID");
            Stream.concat(Stream.of(to, from), masters.stream()).distinct().forEach(node -> {
                try (Native client = node.client()) {
                    client.say("CLUSTER SETSLOT" + slot + " NODE " + owner);
                }
            });
        }
    }

    void stop() {
        replicas.forEach(Node::stop);
        masters.forEach(Node::stop);
    }
}
