package rlock;

import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** What Redisson's own tests need in place of containers: servers with the module, and clients with the locks of java/. */
public final class Peer {
    private final String[] options;
    private Node node;

    /** @param options of the server */
    public Peer(String... options) {
        this.options = options;
    }

    public static RedissonClient create(Config config) {
        return Fleet.wrap(Redisson.create(config));
    }

    /** The address of one node of a new cluster. */
    public static String cluster() {
        return Cluster.start().of("any").address();
    }

    public void start() {
        node = Node.start(options);
    }

    public void stop() {
        node.stop();
    }

    public int port() {
        return node.port();
    }

    /** Restarts at the same port, without data. */
    public void restart() {
        try (Native client = node.client()) {
            client.say("DEBUG RESTART");
        } catch (RuntimeException closed) {
            // The server sends no answer: the connection ends with it.
        }
        Patience.until("the server answers again", () -> {
            try (Native client = node.client()) {
                return "PONG".equals(client.say("PING"));
            } catch (RuntimeException notYet) {
                return false;
            }
        });
    }
}
