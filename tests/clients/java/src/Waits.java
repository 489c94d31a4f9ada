// snippet: session
import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.util.SafeEncoder;

/** Waits for locks of one server: make one of them for a process, and end all waits before you close it. */
final class Waits implements AutoCloseable {
    /** How long the server keeps the waits of a process that it does not hear from. */
    private static final int TTL_MS = 10_000;

    private record Event(String outcome, Object value) {}

    final String session = UUID.randomUUID().toString();
    private final String process = UUID.randomUUID().toString();
    private final AtomicLong tickets = new AtomicLong();
    private final Map<String, BlockingQueue<Event>> news = new ConcurrentHashMap<>();
    private final HostAndPort server;
    private final DefaultJedisClientConfig.Builder config;
    private final RedisClient redis;
    private final Thread polling = new Thread(this::poll, "rlock-events");
    private volatile boolean closed;
    private volatile Connection polls;
    private long seen; // the last event

    Waits(HostAndPort server, DefaultJedisClientConfig.Builder config) {
        this.server = server;
        this.config = config;
        redis = RedisClient.builder().hostAndPort(server).clientConfig(config.build()).build();
        polling.setDaemon(true);
        polling.start();
    }

    @Override
    public void close() {
        closed = true;
        if (polls != null) polls.disconnect();
        ask(Rlock.CANCEL, session); // ends the session
        redis.close();
    }

    /** Returns the holder, for RENEW and RELEASE … ALL; throws if the lock is not free in time. May be interrupted. */
    String acquire(String key, int leaseMs, int waitMs) throws InterruptedException, TimeoutException {
        String ticket = Long.toString(tickets.incrementAndGet());
        String holder = process + ":" + ticket;
        news.put(ticket, new LinkedBlockingQueue<>());
        boolean granted = false;
        try {
            await(key, holder, ticket, Integer.toString(leaseMs), System.nanoTime() / 1_000_000 + waitMs);
            granted = true;
            return holder;
        } finally {
            news.remove(ticket);
            if (!granted) {
                ask(Rlock.CANCEL, session, ticket);
                ask(Rlock.RELEASE, key, holder, "ALL");
            }
        }
    }

    private void await(String key, String holder, String ticket, String lease, long end)
            throws InterruptedException, TimeoutException {
        for (long left; (left = end - System.nanoTime() / 1_000_000) > 0; ) {
            // Sent again with the same ticket, it keeps its place in the queue.
            Object reply = ask(Rlock.ACQUIRE, key, holder, lease,
                "WAIT", Long.toString(left), "SESSION", session, ticket);
            if (reply == null) return; // it was free
            if (reply == ASK_AGAIN) {
                Thread.sleep(100);
                continue;
            }
            // Nobody says that the time is up if the server is gone.
            Event event = news.get(ticket).poll(left + 1_000, MILLISECONDS);
            if (event == null || event.outcome.equals("timeout")) break;
            if (event.outcome.equals("error")) throw new JedisDataException((String) event.value);
            // A grant may be old when it is read: the lock is ours only if it can be renewed.
            if (event.outcome.equals("granted") && Long.valueOf(1).equals(ask(Rlock.RENEW, key, holder, lease))) return;
        }
        throw new TimeoutException(key + " is not free");
    }

    private static final Object ASK_AGAIN = new Object();

    /** Every command here may be sent again, after the connection broke or the session was lost. */
    private Object ask(Rlock command, String... arguments) {
        try {
            return redis.sendCommand(command, arguments);
        } catch (JedisDataException error) {
            if (!error.getMessage().startsWith("NOSESSION")) throw error;
            return ASK_AGAIN;
        } catch (JedisException broken) {
            return ASK_AGAIN;
        }
    }

    private void poll() {
        // The server answers each call of EVENTS within a third of the TTL.
        var patient = config.socketTimeoutMillis(TTL_MS / 2).build();
        while (!closed) {
            try (var connection = new Connection(server, patient)) {
                polls = connection;
                long now = System.currentTimeMillis();
                call(connection); // opens the session, or takes it up again
                read(connection);
                news.values().forEach(queue -> queue.add(new Event("ask again", null)));
                // Two calls are under way, so that one waits in the server while the reply to the other is read.
                call(connection, "WAIT", "0");
                // Otherwise this process stood still, and the session may have ended.
                for (long before = now; !closed && now - before < TTL_MS; ) {
                    call(connection, "WAIT", "0");
                    read(connection);
                    before = now;
                    now = System.currentTimeMillis();
                }
            } catch (JedisException error) {
                if (closed) return;
                if (String.valueOf(error.getMessage()).startsWith("NOSESSION")) seen = 0;
                System.getLogger("rlock").log(System.Logger.Level.WARNING, "no events, trying again", error);
                pause();
            }
        }
    }

    private void call(Connection connection, String... more) {
        var call = new CommandArguments(Rlock.EVENTS).add(session).add("ACK").add(seen).add("TTL").add(TTL_MS);
        connection.sendCommand(call.addObjects((Object[]) more));
    }

    private void read(Connection connection) {
        for (Object event : (List<?>) SafeEncoder.encodeObject(connection.getOne())) {
            List<?> it = (List<?>) event;
            String ticket = (String) it.get(1), outcome = (String) it.get(2);
            BlockingQueue<Event> queue = news.get(ticket);
            if (queue != null) queue.add(new Event(outcome, it.get(3)));
            // Nobody waits any more, and it is not acknowledged yet: the server takes the lock back.
            else if (outcome.equals("granted")) redis.sendCommand(Rlock.CANCEL, session, ticket);
            seen = (Long) it.get(0);
        }
    }

    private static void pause() {
        try {
            Thread.sleep(100);
        } catch (InterruptedException ignored) {
            // Nobody interrupts this thread.
        }
    }
}
// end
