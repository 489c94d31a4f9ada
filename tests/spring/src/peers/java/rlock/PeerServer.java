package rlock;

import org.redisson.config.Config;

/** The server with the module, for suites of other packages. */
public final class PeerServer {
    private PeerServer() {
    }

    public static Config config() {
        Config config = new Config();
        config.useSingleServer().setAddress(Node.shared().address());
        return config;
    }
}
