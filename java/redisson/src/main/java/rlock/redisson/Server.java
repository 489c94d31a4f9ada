package rlock.redisson;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BiConsumer;
import java.util.function.Supplier;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFutureListener;
import org.redisson.RedissonShutdownException;
import org.redisson.api.BatchOptions;
import org.redisson.api.RFuture;
import org.redisson.client.RedisAskException;
import org.redisson.client.RedisClient;
import org.redisson.client.RedisConnection;
import org.redisson.client.RedisConnectionException;
import org.redisson.client.RedisException;
import org.redisson.client.RedisMovedException;
import org.redisson.client.RedisReconnectedException;
import org.redisson.client.RedisResponseTimeoutException;
import org.redisson.client.RedisTimeoutException;
import org.redisson.client.codec.ByteArrayCodec;
import org.redisson.client.codec.Codec;
import org.redisson.client.codec.StringCodec;
import org.redisson.client.protocol.CommandData;
import org.redisson.client.protocol.RedisCommand;
import org.redisson.client.protocol.RedisCommands;
import org.redisson.command.CommandAsyncExecutor;
import org.redisson.command.CommandBatchService;
import org.redisson.command.NoSyncedSlavesException;
import org.redisson.connection.ConnectionEventsHub;
import org.redisson.connection.ConnectionListener;
import org.redisson.connection.MasterSlaveEntry;
import org.redisson.connection.ServiceManager;
import org.redisson.misc.CompletableFutureWrapper;

/**
 * How commands get to the server: by Redisson's internals, which only this file uses.
 *
 * <p>Redisson's public API has no way to send a command that it does not know. Its executor has one, and brings routing,
 * redirections, failover and time limits with it, so that a lost server looks to a service as it always did. It would do
 * two things wrong. If a reply is late, it sends the command again, which for an acquire is a second hold: so commands are
 * marked here that must not be sent again. And a poll would keep one of its pool's connections: so a poll has its own
 * here, made by the same client of the node, with the same address, credentials and TLS.
 */
final class Server {
    /** Before Java 16 a future's own wait forgets an interrupt that comes with its result; a latch's does not. */
    private static final boolean FORGETS_INTERRUPTS = Runtime.version().feature() < 16;

    private static final int UNKNOWN = -1;

    private static final long LOOKS_APART_MS = 1_000;

    private final CommandAsyncExecutor executor;
    private final Clock clock;

    Server(CommandAsyncExecutor executor) {
        this(executor, new Clock());
    }

    private Server(CommandAsyncExecutor executor, Clock clock) {
        this.executor = executor;
        this.clock = clock;
    }

    /** The same servers by other settings. */
    Server with(CommandAsyncExecutor other) {
        return new Server(other, clock);
    }

    CommandAsyncExecutor executor() {
        return executor;
    }

    private ServiceManager services() {
        return executor.getServiceManager();
    }

    /** Once this is written, Redisson does not send it a second time, whatever becomes of the reply. */
    private static final class SentOnce extends RedisCommand<Object> {
        SentOnce(String name) {
            super(name);
        }

        @Override
        public boolean isNoRetry() {
            return true;
        }
    }

    /** Sends what must not be executed twice. */
    CompletableFuture<Object> once(String key, Request request) {
        return send(() -> executor.writeAsync(key, codec(request), new SentOnce(request.name),
                request.arguments.toArray()));
    }

    private static Codec codec(Request request) {
        return request.isBinary ? ByteArrayCodec.INSTANCE : StringCodec.INSTANCE;
    }

    /** @return whether it was held */
    CompletableFuture<Boolean> renew(Hold.Id id, long leaseMs) {
        return once(id.key, Request.renew(id, leaseMs)).thenApply(Server::isRenewed);
    }

    /** The same, confirmed by replicas where there are any. By Redisson's own way, which knows where the lock is. */
    CompletableFuture<Boolean> renewReplicated(Hold.Id id, long leaseMs) {
        return renew(id, leaseMs).thenCompose(isHeld ->
                isHeld ? replicated(id, leaseMs) : CompletableFuture.completedFuture(false));
    }

    static boolean isRenewed(Object reply) {
        return Long.valueOf(1).equals(reply);
    }

    /** Sends what can be executed any number of times, as often as Redisson likes. */
    CompletableFuture<Object> repeatably(String key, Request request) {
        return send(() -> executor.writeAsync(key, StringCodec.INSTANCE, new RedisCommand<>(request.name),
                request.arguments.toArray()));
    }

    private interface Sending {
        CompletionStage<Object> begin();
    }

    /** Redisson throws some of its refusals at once. */
    private static CompletableFuture<Object> send(Sending sending) {
        try {
            return sending.begin().toCompletableFuture();
        } catch (RuntimeException e) {
            return CompletableFuture.failedFuture(e);
        }
    }

    /** Whether a request may have been executed, or may be yet, though there was no reply. */
    static boolean isUnanswered(Throwable error) {
        Throwable cause = cause(error);
        boolean isNotSent = cause instanceof RedisTimeoutException && !(cause instanceof RedisResponseTimeoutException);
        return !isNotSent && !isReply(error);
    }

    /**
     * Whether this is an error reply of the server, or one that begins with one of these words. The error of a broken connection
     * is none, although Redisson wraps it in the class of error replies.
     */
    static boolean isReply(Throwable error, String... words) {
        Throwable cause = cause(error);
        boolean isReply = cause instanceof RedisException && !(cause instanceof RedisTimeoutException)
                && !(cause instanceof RedisConnectionException) && !(cause instanceof RedisReconnectedException)
                && !(cause instanceof RedissonShutdownException) && !(cause.getCause() instanceof IOException);
        String message = String.valueOf(cause.getMessage());
        return isReply && (words.length == 0 || Arrays.stream(words).anyMatch(message::startsWith));
    }

    /** Whether the lock's name stores something else by now. */
    static boolean isOverwritten(Throwable error) {
        return isReply(error, "WRONGTYPE", "WRONGKIND");
    }

    static boolean isRedirection(Throwable error) {
        return cause(error) instanceof RedisMovedException || cause(error) instanceof RedisAskException;
    }

    static Throwable cause(Throwable error) {
        Throwable cause = error;
        while ((cause instanceof CompletionException || cause instanceof ExecutionException)
                && cause.getCause() != null) {
            cause = cause.getCause();
        }
        return cause;
    }

    /** One master, for as long as it is one. */
    static final class Node {
        private final MasterSlaveEntry entry;
        private final RedisClient client;

        private Node(MasterSlaveEntry entry) {
            this.entry = entry;
            client = entry.getClient();
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Node && ((Node) other).client == client;
        }

        @Override
        public int hashCode() {
            return System.identityHashCode(client);
        }

        @Override
        public String toString() {
            return String.valueOf(client.getAddr());
        }
    }

    /** Whether what a node says counts: as far as is known here, it is a master still. */
    boolean listensTo(Node node) {
        return !isShuttingDown() && node.entry.getClient() == node.client;
    }

    /** Whether this node has the key. */
    boolean isAt(Node node, String key) {
        return node != null && node.equals(node(key));
    }

    boolean isAt(InetSocketAddress address, String key) {
        Node node = node(key);
        return node != null && address.equals(node.client.getAddr());
    }

    /** Whether one command may name all these keys. */
    boolean areTogether(Collection<String> keys) {
        return keys.stream().map(executor.getConnectionManager()::calcSlot).distinct().count() == 1;
    }

    /**
     * Reports each node to which a connection is made after one was lost, for as long as the observer exists.
     */
    @SuppressWarnings("deprecation")
    <T> void reportConnections(T observer, BiConsumer<T, InetSocketAddress> report) {
        ConnectionEventsHub hub = services().getConnectionEventsHub();
        WeakReference<T> reference = new WeakReference<>(observer);
        hub.addListener(new ConnectionListener() {
            @Override
            public void onConnect(InetSocketAddress address) {
                T still = reference.get();
                if (still == null) {
                    hub.removeListener(System.identityHashCode(this));
                } else {
                    report.accept(still, address);
                }
            }

            @Override
            public void onDisconnect(InetSocketAddress address) {
            }
        });
    }

    /** The node that has a key; null while it is not known. */
    Node node(String key) {
        MasterSlaveEntry entry = executor.getConnectionManager().getEntry(key);
        return entry == null || entry.getClient() == null ? null : new Node(entry);
    }

    Collection<MasterSlaveEntry> masters() {
        return executor.getConnectionManager().getEntrySet();
    }

    CompletableFuture<Object> repeatably(MasterSlaveEntry master, Request request) {
        return send(() -> executor.writeAsync(master, StringCodec.INSTANCE, new RedisCommand<>(request.name),
                request.arguments.toArray()));
    }

    CompletableFuture<Object> once(Node node, Request request) {
        return send(() -> executor.writeAsync(node.entry, StringCodec.INSTANCE, new SentOnce(request.name),
                request.arguments.toArray()));
    }

    /** A connection of its own. It ends with the client of its node: when that is no longer a master. */
    final class Line {
        private final RedisConnection connection;
        /** Only this channel, and none that Redisson opens in its place: there WAIT would confirm what was never sent there. */
        private final Channel channel;
        private final Runnable end;
        private final Set<CompletableFuture<Object>> pending = ConcurrentHashMap.newKeySet();
        private volatile boolean isToBeClosed;
        private final AtomicBoolean isEnded = new AtomicBoolean();
        private final ChannelFutureListener breaking = closed -> pending.forEach(this::broke);

        private Line(RedisConnection connection, Runnable end) {
            this.connection = connection;
            this.end = end;
            channel = connection.getChannel();
            // Redisson would not report that, since it opens its connections again.
            channel.closeFuture().addListener(breaking);
        }

        private void broke(CompletableFuture<Object> promise) {
            promise.completeExceptionally(new RedisConnectionException("the connection broke: " + connection));
        }

        /** Sends behind what was sent before, without waiting for its reply. */
        CompletableFuture<Object> send(Request request, long limitMs) {
            CompletableFuture<Object> promise = new CompletableFuture<>();
            pending.add(promise);
            Clock.Timer limit = after(limitMs, () -> promise.completeExceptionally(new RedisResponseTimeoutException(
                    "Redis server response timeout (" + limitMs + " ms) occurred: " + request.name)));
            promise.whenComplete((reply, error) -> {
                limit.cancel();
                pending.remove(promise);
                closeIfDone();
            });
            channel.writeAndFlush(new CommandData<>(promise, codec(request),
                    new RedisCommand<>(request.name), request.arguments.toArray()));
            if (!isOpen()) {
                broke(promise);
            }
            return promise;
        }

        boolean isOpen() {
            return channel.isActive();
        }

        /** Closes after the last reply. Nothing may be sent any more. */
        void close() {
            isToBeClosed = true;
            closeIfDone();
        }

        private void closeIfDone() {
            if (isToBeClosed && pending.isEmpty() && isEnded.compareAndSet(false, true)) {
                channel.closeFuture().removeListener(breaking);
                end.run();
            }
        }
    }

    CompletableFuture<Line> connect(Node node, long limitMs) {
        CompletableFuture<Line> line = limited(new CompletableFuture<>(), limitMs);
        node.client.connectAsync().whenComplete((connection, error) -> {
            if (error != null) {
                line.completeExceptionally(error);
            } else if (!line.complete(new Line(connection, connection::closeAsync))) {
                // Closed by us, so that Redisson does not open it again.
                connection.closeAsync();
            }
        });
        return line;
    }

    /** The clock ends with the client's threads. Threads that the service has lent go on, so this looks for a shutdown. */
    void endClockWithClient() {
        if (services().getCfg().getEventLoopGroup() == null) {
            services().getGroup().terminationFuture().addListener(terminated -> clock.end());
        } else if (isShuttingDown()) {
            clock.end();
        } else {
            clock.after(LOOKS_APART_MS, this::endClockWithClient);
        }
    }

    /** Runs a renewal, or the end of a lease, on the clock's own thread, which no callback of the service may hold up. */
    Clock.Timer onTime(long ms, Runnable task) {
        return clock.after(ms, () -> {
            if (!isShuttingDown()) {
                task.run();
            }
        });
    }

    /** A task that is dropped if the client is shut down before it is due. */
    Clock.Timer after(long ms, Runnable task) {
        return later(ms, () -> {
            if (!isShuttingDown()) {
                task.run();
            }
        });
    }

    /** A task that may run callbacks of the service. When the client is shut down, it runs at once. */
    Clock.Timer later(long ms, Runnable task) {
        return clock.after(ms, () -> {
            try {
                forListeners().execute(task);
            } catch (RejectedExecutionException shutDown) {
                task.run();
            }
        });
    }

    /** The same future, which fails with a TimeoutException if it is not completed within the time. */
    <T> CompletableFuture<T> limited(CompletableFuture<T> future, long ms) {
        Clock.Timer limit = later(ms, () -> future.completeExceptionally(new TimeoutException()));
        future.whenComplete((result, error) -> limit.cancel());
        return future;
    }

    boolean isShuttingDown() {
        return services().isShuttingDown();
    }

    String clientId() {
        return services().getId();
    }

    long watchdogMs() {
        return services().getCfg().getLockWatchdogTimeout();
    }

    int retryAttempts() {
        return services().getConfig().getRetryAttempts();
    }

    long retryDelayMs(int attempt) {
        return services().getConfig().getRetryDelay().calcDelay(attempt).toMillis();
    }

    long timeoutMs() {
        return services().getConfig().getTimeout();
    }

    /** Where code of the service may run, which may block. */
    Executor forListeners() {
        return services().getExecutor();
    }

    /** Waits as Redisson waits: not on a thread that has to deliver what is waited for. */
    <T> T get(CompletableFuture<T> future, boolean interruptibly) throws InterruptedException {
        if (Thread.currentThread().getName().startsWith("redisson-netty")) {
            throw new IllegalStateException("Sync methods can't be invoked from async/rx/reactive listeners");
        }
        CountDownLatch isDone = new CountDownLatch(1);
        if (FORGETS_INTERRUPTS) {
            future.whenComplete((result, error) -> isDone.countDown());
        }
        boolean wasInterrupted = false;
        try {
            while (true) {
                try {
                    if (FORGETS_INTERRUPTS) {
                        isDone.await();
                    }
                    return future.get();
                } catch (InterruptedException e) {
                    // A result that is there already is this thread's, and nothing else would release it.
                    if (interruptibly && future.cancel(false)) {
                        throw e;
                    }
                    wasInterrupted = true;
                } catch (ExecutionException e) {
                    throw executor.convertException(e);
                }
            }
        } finally {
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    static <T> RFuture<T> asRedissons(CompletableFuture<T> future) {
        return new CompletableFutureWrapper<>(future);
    }

    /** Whether a write counts only if a replica has confirmed it: Redisson's default wherever there can be replicas. */
    boolean isConfirming() {
        return !services().getCfg().isSingleConfig() && services().getCfg().isCheckLockSyncedSlaves();
    }

    /** For how long Redisson waits for replicas. */
    long syncMs() {
        long limit = services().getCfg().getSlavesSyncTimeout();
        return limit > 0 ? limit : timeoutMs();
    }

    /**
     * Waits until the replicas have what was written to a lock, as Redisson does after each of its own writes: not on a
     * single server, and for as many replicas as there are. WAIT is sent behind a renewal on the same connection, since the
     * replicas confirm everything before it. Fails if no replica has it, unless the service has said that it does not matter.
     *
     * @return whether the lock was held, as far as the renewal shows
     */
    CompletableFuture<Boolean> replicated(Hold.Id id, long leaseMs) {
        if (services().getCfg().isSingleConfig()) {
            return CompletableFuture.completedFuture(true);
        }
        MasterSlaveEntry entry = executor.getConnectionManager().getEntry(id.key);
        return replicas(entry).thenCompose(replicas ->
                replicas == 0 ? CompletableFuture.completedFuture(true) : replicated(id, leaseMs, entry, replicas));
    }

    private CompletableFuture<Integer> replicas(MasterSlaveEntry entry) {
        if (entry == null || entry.getAvailableSlaves() != UNKNOWN) {
            return CompletableFuture.completedFuture(entry == null ? 0 : entry.getAvailableSlaves());
        }
        RFuture<Map<String, String>> asked =
                executor.writeAsync(entry, StringCodec.INSTANCE, RedisCommands.INFO_REPLICATION);
        return asked.toCompletableFuture().thenApply(answer -> {
            int replicas = Integer.parseInt(answer.getOrDefault("connected_slaves", "0"));
            entry.setAvailableSlaves(replicas);
            return replicas;
        });
    }

    /** How many replicas a node has. Redisson never asks again once there were none; a replica may have come since. */
    CompletableFuture<Integer> replicas(Node node) {
        if (node.entry.getAvailableSlaves() == 0) {
            node.entry.setAvailableSlaves(UNKNOWN);
        }
        return replicas(node.entry);
    }

    private CompletableFuture<Boolean> replicated(Hold.Id id, long leaseMs, MasterSlaveEntry entry, int replicas) {
        Duration limit = Duration.ofMillis(services().getCfg().getSlavesSyncTimeout());
        CommandBatchService batch =
                executor.createCommandBatchService(BatchOptions.defaults().sync(replicas, limit));
        Request renewal = Request.renew(id, leaseMs);
        batch.writeAsync(id.key, StringCodec.INSTANCE, new RedisCommand<>(renewal.name), renewal.arguments.toArray());
        return batch.executeAsync().toCompletableFuture().thenApply(result -> {
            note(entry, replicas, result.getSyncedSlaves());
            if (result.getSyncedSlaves() == 0 && services().getCfg().isCheckLockSyncedSlaves()) {
                throw notReplicated();
            }
            return isRenewed(result.getResponses().get(0));
        });
    }

    /** If more or fewer replicas than the known number have confirmed, they are counted again. */
    private static void note(MasterSlaveEntry entry, int replicas, int confirmed) {
        if (confirmed != replicas) {
            entry.setAvailableSlaves(UNKNOWN);
        }
    }

    private static NoSyncedSlavesException notReplicated() {
        return new NoSyncedSlavesException("None of slaves were synced. "
                + "Try to increase slavesSyncTimeout setting or set checkLockSyncedSlaves = false.");
    }

    /** Completes once a replica has what was sent by this line before; what is sent behind it waits for that. */
    CompletableFuture<Void> confirmed(Line line, Node node, int replicas, long limitMs) {
        return line.send(Request.waitFor(replicas, limitMs), limitMs + timeoutMs()).thenAccept(reply -> {
            int confirmed = ((Long) reply).intValue();
            note(node.entry, replicas, confirmed);
            if (confirmed == 0) {
                throw notReplicated();
            }
        });
    }

    /**
     * Sends what must not be executed twice, and waits for the replicas. If it was executed, and it is unknown whether a
     * replica has it, this fails so that {@link #isNotReplicated} is true. WAIT has to be sent behind it on the same
     * connection, and Redisson's way to do that would send both again.
     *
     * @param otherwise sends it if there is no replica, or if it was certainly not executed
     */
    CompletableFuture<Object> onceReplicated(
            String key, Request request, Supplier<CompletableFuture<Object>> otherwise) {
        Node node = node(key);
        return node == null ? otherwise.get() : replicas(node.entry).thenCompose(replicas ->
                replicas == 0 ? otherwise.get() : onceReplicated(request, otherwise, node, replicas));
    }

    private CompletableFuture<Object> onceReplicated(
            Request request, Supplier<CompletableFuture<Object>> otherwise, Node node, int replicas) {
        return node.entry.connectionWriteOp(RedisCommands.WAIT).handle((lent, unavailable) -> {
            if (unavailable != null) {
                return otherwise.get();
            }
            Line line = new Line(lent, () -> node.entry.releaseWrite(lent));
            CompletableFuture<Object> reply = line.send(request, timeoutMs());
            CompletableFuture<Void> confirmed = confirmed(line, node, replicas, syncMs());
            line.close();
            return reply.handle((said, error) -> {
                if (error != null) {
                    // Redisson's own way knows what to do about a refusal.
                    return isReply(error) ? otherwise.get() : reply;
                }
                return said == null ? reply : confirmed.handle((done, unknown) -> {
                    if (unknown != null) {
                        throw notReplicated();
                    }
                    return said;
                });
            }).thenCompose(answer -> answer);
        }).thenCompose(answer -> answer);
    }

    static boolean isNotReplicated(Throwable error) {
        return cause(error) instanceof NoSyncedSlavesException;
    }
}
