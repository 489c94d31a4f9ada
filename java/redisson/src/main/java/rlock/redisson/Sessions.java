package rlock.redisson;

import java.util.concurrent.ConcurrentHashMap;

/** One session for each node with waits. */
final class Sessions {
    private final Server server;
    private final ConcurrentHashMap<Server.Node, Session> all = new ConcurrentHashMap<>();

    Sessions(Server server) {
        this.server = server;
    }

    /** The session at a node, if it is open; null otherwise. */
    Session openAt(Server.Node node) {
        Session session = node == null ? null : all.get(node);
        return session != null && session.isOpen() ? session : null;
    }

    /** The session at a node, opened if need be. */
    Session at(Server.Node node) {
        all.values().removeIf(Session::isOver);
        return all.compute(node, (same, known) ->
                known == null || known.isOver() ? Session.open(server, node) : known);
    }
}
