package rlock;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * A real server with the module, on a free port of the loopback, in a directory of its own.
 *
 * <p>It ends with this JVM, however that ends: a shell waits for the end of a pipe that only this JVM holds,
 * and clears up. The shutdown hook alone would not run when the JVM is killed, and a server would stay behind.
 *
 * <p>{@code RLOCK_SERVER}: the server's binary, {@code redis-server} if not set. {@code RLOCK_MODULE}: the module.
 */
final class Node {
    private static final String KEEPER = "trap '' INT TERM HUP; dir=$1; shift; "
            + "\"$@\" </dev/null >\"$dir/log\" 2>&1 & server=$!; echo $server >\"$dir/pid\"; "
            + "cat >/dev/null; kill -KILL $server 2>/dev/null; wait $server; rm -rf \"$dir\"";

    private static Node shared;
    private static final List<Node> running = new CopyOnWriteArrayList<>();

    private final int port = freePort();
    private final Path directory;
    private final Process keeper;

    private Node(String config, List<String> options) throws IOException {
        directory = Files.createTempDirectory("rlock-redisson-");
        List<String> command = new ArrayList<>(List.of("sh", "-c", KEEPER, "sh", directory.toString(),
                environment("RLOCK_SERVER", "redis-server")));
        if (!config.isEmpty()) {
            command.add(Files.writeString(directory.resolve("config"), config).toString());
        }
        command.addAll(List.of("--port", "" + port, "--bind", "127.0.0.1", "--save", "",
                "--dir", directory.toString(), "--enable-debug-command", "yes"));
        command.addAll(options);
        keeper = new ProcessBuilder(command).redirectErrorStream(true).start();
        Runtime.getRuntime().addShutdownHook(new Thread(this::stop));
        Patience.until("the server answers", this::isReady);
        running.add(this);
    }

    /** The server shared by all tests that need no more than names of their own. */
    static synchronized Node shared() {
        if (shared == null) {
            shared = start();
        }
        return shared;
    }

    static Node start(String... options) {
        List<String> all = new ArrayList<>(List.of("--loadmodule", environment("RLOCK_MODULE", null)));
        all.addAll(List.of(options));
        return start("", all);
    }

    /** A server that knows nothing of the commands. */
    static Node withoutModule() {
        return start("", List.of());
    }

    /** A sentinel, which watches a master. */
    static Node sentinel(String config) {
        return start(config, List.of("--sentinel"));
    }

    private static Node start(String config, List<String> options) {
        try {
            return new Node(config, options);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    int port() {
        return port;
    }

    String address() {
        return "redis://127.0.0.1:" + port;
    }

    Native client() {
        return new Native(port);
    }

    /** The server stays there, and answers no more. */
    void freeze() {
        try {
            running.remove(this);
            new ProcessBuilder("kill", "-STOP", Files.readString(directory.resolve("pid")).trim()).start().waitFor();
        } catch (IOException | InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** The server answers again, first what it was asked meanwhile. */
    void thaw() {
        try {
            new ProcessBuilder("kill", "-CONT", Files.readString(directory.resolve("pid")).trim()).start().waitFor();
        } catch (IOException | InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** How many tickets wait in all servers of these tests, except those that do not answer. */
    static long tickets() {
        long tickets = 0;
        for (Node node : running) {
            try (Native client = node.client()) {
                String info = "" + client.say("INFO rlock");
                tickets += info.contains("tickets:") ? Long.parseLong(info.split("tickets:")[1].split("\r\n")[0]) : 0;
            }
        }
        return tickets;
    }

    void stop() {
        running.remove(this);
        try {
            keeper.getOutputStream().close();
            keeper.waitFor();
        } catch (IOException | InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    static int freePort() {
        try (var socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Ready, and ours: another process may have taken the port in the meantime. */
    private boolean isReady() {
        try (Native client = client()) {
            String pid = Files.readString(directory.resolve("pid")).trim();
            return ("" + client.say("INFO server")).contains("process_id:" + pid + "\r\n");
        } catch (UncheckedIOException | IOException | Native.Refused notYet) {
            failIfItEnded();
            return false;
        }
    }

    private void failIfItEnded() {
        try {
            Path pid = directory.resolve("pid");
            String text = Files.exists(pid) ? Files.readString(pid).trim() : "";
            if (!text.isEmpty() && ProcessHandle.of(Long.parseLong(text)).isEmpty()) {
                throw new AssertionError("the server did not start:\n" + Files.readString(directory.resolve("log")));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static String environment(String name, String otherwise) {
        String value = System.getenv(name);
        if (value == null && otherwise == null) {
            throw new AssertionError(name + " is not set; these tests are run by: make test-redisson");
        }
        return value == null ? otherwise : value;
    }
}
