package rlock.redisson;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.redisson.client.RedisConnectionException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * All waits of this process at one node: by tickets, over one connection that is polled.
 *
 * <p>One poll is under way. The next one follows a reply at once. When the connection breaks, the server keeps the
 * places for a while, so another one is made at once. The session is over only when that has failed for as long as the
 * server keeps the places, or when the server no longer knows the session or is no longer a master. Then the waits are
 * notified, and ask again, wherever the lock is then.
 *
 * <p>The requests of the waits go over a second connection, one behind the other, which costs both sides about half of
 * what a pool does. It is a shortcut: whatever is not answered there can be asked by Redisson's own way.
 *
 * <p>An event is acknowledged with the next poll, and from then on only the lease matters for a grant. The grant of a ticket
 * that was given up is acknowledged like any other: its first lease is short, and ends it.
 */
final class Session {
    private static final Logger log = LoggerFactory.getLogger(Session.class);

    /**
     * How long the server keeps the places of a process that says nothing. If its machine is gone without a word, its waits
     * can hold others up that long. Within this time, this process notices that its connection is gone.
     */
    static final long TTL_MS = 3_000;

    private static final long PAUSE_MIN_MS = 20;
    private static final long PAUSE_MAX_MS = 320;

    /** A session without waits ends after this time, so that a quiet process does not poll. */
    private static final long IDLE_MS = 10_000;

    /** The server's replies when a ticket is taken back: it was not granted its lock, or it was. */
    static final Long WITHDRAWN = 1L;
    static final Long GRANTED = 2L;

    /** No ticket has this name. */
    private static final String NO_TICKET = "0";

    final Server.Node node;
    final String name = UUID.randomUUID().toString();

    /** Completes once the server knows the session. */
    final CompletableFuture<Session> opened = new CompletableFuture<>();

    private final Server server;
    private final Map<String, Ticket> tickets = new HashMap<>();
    private boolean isOver;
    private long lastTicket;
    private long idleSince = System.nanoTime();
    private long heardAt;
    private long polledAt;
    private long pauseMs = PAUSE_MIN_MS;

    /** The last event that has come. */
    private long acknowledged;

    private Server.Line line;
    private Server.Line shortcut;
    private CompletableFuture<Server.Line> opening;

    private Session(Server server, Server.Node node) {
        this.server = server;
        this.node = node;
    }

    static Session open(Server server, Server.Node node) {
        Session session = new Session(server, node);
        session.connect();
        return session;
    }

    /** Null if the session is over. */
    synchronized Ticket ticket() {
        if (isOver) {
            return null;
        }
        Ticket ticket = new Ticket(this, String.valueOf(++lastTicket));
        tickets.put(ticket.name, ticket);
        return ticket;
    }

    synchronized void forget(Ticket ticket) {
        if (tickets.remove(ticket.name) != null && tickets.isEmpty()) {
            idleSince = System.nanoTime();
        }
    }

    /** Whether a wait can begin without waiting for the session. */
    boolean isOpen() {
        return opened.isDone() && !isOver();
    }

    /** Whether the server has answered a moment ago. It answers at each third of the time for which it keeps a session. */
    synchronized boolean isAnswering() {
        return !isOver && heardAt != 0 && System.nanoTime() - heardAt < TimeUnit.MILLISECONDS.toNanos(TTL_MS / 2);
    }

    /** Null if there is no shortcut just now. What is under way when the session ends is answered all the same. */
    synchronized CompletableFuture<Object> shortcut(Request request) {
        if (isOver) {
            return null;
        }
        if (shortcut != null && shortcut.isOpen()) {
            return shortcut.send(request, server.timeoutMs());
        }
        openShortcut();
        return null;
    }

    /**
     * The same by a shortcut that is opened first, if need be. Redisson does not notice that a connection is cut, and
     * waits in vain for its replies. Here the request fails at once, and the next one gets a new connection.
     */
    CompletableFuture<Object> surely(Request request) {
        CompletableFuture<Server.Line> line;
        synchronized (this) {
            if (isOver) {
                return CompletableFuture.failedFuture(new RedisConnectionException("no session at " + node));
            }
            line = shortcut != null && shortcut.isOpen()
                    ? CompletableFuture.completedFuture(shortcut) : openShortcut();
        }
        return line.thenCompose(open -> open.send(request, server.timeoutMs()));
    }

    private synchronized CompletableFuture<Server.Line> openShortcut() {
        if (opening != null) {
            return opening;
        }
        CompletableFuture<Server.Line> connecting = server.connect(node, TTL_MS);
        opening = connecting;
        // This may run at once.
        connecting.whenComplete(this::shortcutOpened);
        return connecting;
    }

    private synchronized void shortcutOpened(Server.Line opened, Throwable error) {
        opening = null;
        close(isOver ? opened : shortcut);
        shortcut = isOver ? null : opened;
    }

    private static void close(Server.Line line) {
        if (line != null) {
            line.close();
        }
    }

    /** Takes a ticket back: {@link #WITHDRAWN}, {@link #GRANTED}, or neither if the server does not know it. */
    CompletableFuture<Object> cancel(Ticket ticket) {
        return server.once(node, Request.cancel(name, ticket.name)).thenApply(reply -> ((List<?>) reply).get(0));
    }

    synchronized boolean isOver() {
        return isOver;
    }

    private void connect() {
        if (!server.listensTo(node)) {
            over(new RedisConnectionException("no place to connect to"));
            return;
        }
        server.connect(node, TTL_MS).whenComplete((connected, error) -> {
            if (error != null) {
                broken(null, error);
            } else if (begin(connected)) {
                converse(connected);
            } else {
                connected.close();
            }
        });
    }

    private synchronized boolean begin(Server.Line connected) {
        if (isOver) {
            return false;
        }
        line = connected;
        return true;
    }

    /** A poll that acknowledges nothing would open another session of this name, without waits. */
    private void converse(Server.Line on) {
        boolean mayBeUnknown;
        synchronized (this) {
            mayBeUnknown = heardAt != 0 && acknowledged == 0;
        }
        if (!mayBeUnknown) {
            poll(on, heardAt != 0);
            return;
        }
        on.send(Request.cancel(name, NO_TICKET), TTL_MS).whenComplete((reply, error) -> {
            if (error != null) {
                broken(on, error);
            } else {
                poll(on, heardAt != 0);
            }
        });
    }

    private void poll(Server.Line on, boolean waits) {
        Request request;
        long sentAt = 0;
        synchronized (this) {
            long now = System.nanoTime();
            if (isOver || line != on) {
                return;
            }
            if (waits && acknowledged == 0 && now - polledAt > TimeUnit.MILLISECONDS.toNanos(TTL_MS)) {
                // This process stalled, and the server may have ended the session.
                request = null;
            } else {
                polledAt = now;
                sentAt = now;
                request = Request.events(name, acknowledged, TTL_MS);
            }
        }
        if (request == null) {
            broken(on, new RedisConnectionException("no poll for longer than the server keeps a session"));
            return;
        }
        long askedAt = sentAt;
        on.send(waits ? request.waiting() : request, TTL_MS).whenComplete((reply, error) -> {
            if (error != null) {
                broken(on, error);
            } else {
                receive(on, (List<?>) reply, askedAt);
            }
        });
    }

    private void receive(Server.Line on, List<?> events, long askedAt) {
        synchronized (this) {
            heardAt = System.nanoTime();
            pauseMs = PAUSE_MIN_MS;
            if (line != on) {
                return;
            }
        }
        if (!server.listensTo(node)) {
            over(new RedisConnectionException("what it says does not count any more"));
            return;
        }
        opened.complete(this);
        try {
            deliver(events, askedAt);
        } catch (RuntimeException notEvents) {
            over(notEvents);
        }
        if (isUnused()) {
            server.once(node, Request.cancel(name));
            return;
        }
        if (events.isEmpty()) {
            // This is also the answer to a poll after an operator has ended its session.
            converse(on);
        } else {
            poll(on, true);
        }
    }

    private void deliver(List<?> events, long askedAt) {
        List<Ticket> receivers = new ArrayList<>();
        List<Ticket.Event> outcomes = new ArrayList<>();
        synchronized (this) {
            for (Object each : events) {
                List<?> event = (List<?>) each;
                long sequence = ((Number) event.get(0)).longValue();
                // Events of a former connection come again if their acknowledgement was lost.
                if (sequence <= acknowledged) {
                    continue;
                }
                acknowledged = sequence;
                Ticket ticket = tickets.get(String.valueOf(event.get(1)));
                if (ticket != null) {
                    receivers.add(ticket);
                    outcomes.add(Ticket.Event.of(event, askedAt));
                }
            }
        }
        for (int i = 0; i < receivers.size(); i++) {
            receivers.get(i).event.complete(outcomes.get(i));
        }
    }

    private synchronized boolean isUnused() {
        boolean isIdle = tickets.isEmpty()
                && System.nanoTime() - idleSince > TimeUnit.MILLISECONDS.toNanos(IDLE_MS);
        if (isIdle) {
            end();
        }
        return isIdle;
    }

    private synchronized void end() {
        isOver = true;
        close(line);
        close(shortcut);
        line = null;
        shortcut = null;
    }

    private void broken(Server.Line on, Throwable error) {
        long pause;
        synchronized (this) {
            if (isOver || line != on) {
                return;
            }
            if (on != null) {
                on.close();
                line = null;
            }
            boolean mayLiveOn = heardAt != 0
                    && System.nanoTime() - heardAt < TimeUnit.MILLISECONDS.toNanos(TTL_MS)
                    && (!Server.isReply(error) || Server.isReply(error, "BUSY ")) && server.listensTo(node);
            pause = mayLiveOn ? pauseMs : -1;
            pauseMs = Math.min(2 * pauseMs, PAUSE_MAX_MS);
        }
        if (pause < 0) {
            over(error);
        } else {
            server.later(pause, this::connect);
        }
    }

    /** Ends the session: all waits ask again. */
    void over(Throwable error) {
        List<Ticket> left;
        synchronized (this) {
            end();
            left = new ArrayList<>(tickets.values());
            tickets.clear();
        }
        if (!left.isEmpty()) {
            log.debug("{} waits at {} begin again: {}", left.size(), node, String.valueOf(error));
        }
        opened.completeExceptionally(error);
        left.forEach(ticket -> ticket.event.complete(new Ticket.Event(Ticket.Outcome.SESSION_OVER, error, 0)));
    }
}
