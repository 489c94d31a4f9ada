package org.testcontainers.containers;

import rlock.Peer;

/** The part of a container that Redisson's lock tests use. */
public final class GenericContainer<S> {
    private final Peer server;

    public GenericContainer(String... options) {
        server = new Peer(options);
    }

    public void start() {
        server.start();
    }

    public void stop() {
        server.stop();
    }

    public void restart() {
        server.restart();
    }

    public Integer getFirstMappedPort() {
        return server.port();
    }
}
