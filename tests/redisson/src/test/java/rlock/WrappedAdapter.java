package rlock;

import static java.util.Map.entry;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.ConnectException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.RedissonShutdownException;
import org.redisson.api.RFencedLock;
import org.redisson.api.RFuture;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisConnectionException;
import org.redisson.client.RedisException;
import org.redisson.client.RedisNodeNotFoundException;
import org.redisson.client.RedisOutOfMemoryException;
import org.redisson.client.RedisReadonlyException;
import org.redisson.client.RedisReconnectedException;
import org.redisson.client.RedisResponseTimeoutException;
import org.redisson.client.RedisRetryException;
import org.redisson.client.RedisTimeoutException;
import org.redisson.command.NoSyncedSlavesException;
import org.redisson.config.BaseConfig;
import org.redisson.config.Config;
import org.redisson.config.ConstantDelay;
import org.yaml.snakeyaml.Yaml;
import rlock.redisson.HeldLock;
import rlock.redisson.Lead;
import rlock.redisson.LockBusyException;
import rlock.redisson.LockLostException;
import rlock.redisson.LostLock;
import rlock.redisson.Permits;
import rlock.redisson.RedissonLocks;
import rlock.redisson.RlockMissingException;

/**
 * The wrapper for the suite that all clients are held to: clients/conformance/README.md has its lines. It does what a
 * service can do by the public API, and no more: what is missing there is named, and refused.
 *
 * <p>Redisson's locks belong to threads. So each thing that is held has a thread of its own, which takes and releases
 * it. JSON is read as the YAML that it also is, since each Redisson brings a reader for that.
 */
final class WrappedAdapter {
    private static final List<String> WITHOUT = List.of(
            // A fixed lease ends when it was meant to: that is no loss, and not reported.
            "fixed",
            // The server's setting.
            "max_waiters",
            // A hold belongs to a thread.
            "owner",
            // Redisson asks as many as there are, for as long as the client's configuration says.
            "replicas",
            // Redisson fences only single locks.
            "tokens");

    private static final List<String> REFUSED = List.of("max_waiters", "owner", "replicas");

    /** Error replies without an exception of their own in Redisson, or with another one when it connects. */
    private static final Map<String, String> BY_CODE = Map.of("NOAUTH", "no-right", "WRONGPASS", "no-right",
            "NOPERM", "no-right", "WRONGKIND", "wrong-kind", "DEADLOCK", "deadlock", "QUEUEFULL", "queue-full");

    /** Error words by exception. Only a release can be in doubt. */
    private static final Map<Class<?>, String> BY_CLASS = Map.ofEntries(entry(Busy.class, "busy"),
            entry(InterruptedException.class, "cancelled"), entry(IllegalMonitorStateException.class, "lost"),
            entry(LockBusyException.class, "busy"), entry(Failed.class, "failed"), entry(LockLostException.class, "lost"),
            entry(RedissonShutdownException.class, "closed"), entry(RlockMissingException.class, "no-module"),
            entry(NoSyncedSlavesException.class, "too-few-replicas"), entry(ConnectException.class, "unavailable"),
            entry(RedisTimeoutException.class, "unavailable"), entry(RedisResponseTimeoutException.class, "in-doubt"),
            entry(RedisConnectionException.class, "in-doubt"), entry(RedisReconnectedException.class, "in-doubt"),
            entry(RedisRetryException.class, "unavailable"), entry(RedisReadonlyException.class, "unavailable"),
            entry(RedisNodeNotFoundException.class, "unavailable"), entry(IOException.class, "in-doubt"),
            entry(RedisOutOfMemoryException.class, "unavailable"));

    /** The watchdog's lease, if no other is requested. */
    private static final int USUAL_LEASE_MS = 30_000;

    /** Redisson's default. */
    private static final int FIRST_CONNECTIONS = 24;

    /** Between two tries to reach a server. As many are made as fit into the patience if each fails at once. */
    private static final int PAUSE_MS = 100;

    /** How long each task and each holder may take to end at a close. */
    private static final int CLOSING_MS = 1_000;

    private final PrintStream out =
            new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
    private final Map<Integer, Task> byRequest = new ConcurrentHashMap<>();
    private final Map<String, Holder> byName = new ConcurrentHashMap<>();
    /** The clients by their leases: the watchdog's timeout is the whole client's, so each lease has a client of its own. */
    private final Map<Integer, RedissonLocks> clients = new ConcurrentHashMap<>();
    private volatile Request opened;
    private volatile boolean isClosing;

    public static void main(String[] arguments) throws Exception {
        // Other output is not meant for the suite.
        System.setOut(System.err);
        WrappedAdapter adapter = new WrappedAdapter();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Yaml json = new Yaml();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            adapter.hear(new Request(json.load(line)));
        }
        System.exit(0);
    }

    private record Request(Map<String, Object> fields) {
        boolean has(String field) {
            return fields.get(field) != null && !Boolean.FALSE.equals(fields.get(field));
        }

        String text(String field) {
            return (String) fields.get(field);
        }

        String[] texts(String field) {
            return ((Collection<?>) fields.get(field)).toArray(String[]::new);
        }

        int number(String field) {
            return (int) fields.get(field);
        }
    }

    private static final class Busy extends Exception {
        private static final long serialVersionUID = 1;
    }

    /** Thrown by work that must fail. */
    private static final class Failed extends Exception {
        private static final long serialVersionUID = 1;
    }

    /** No request waits for another one: each has a thread, and a release is done by the thread that has the lock. */
    private void hear(Request request) {
        String what = request.text("do");
        Holder known = request.has("held") ? byName.get(request.text("held")) : null;
        if (List.of("acquire", "run", "adopt").contains(what)) {
            new Holder(request).begin();
        } else if (List.of("release", "detach").contains(what) && known != null) {
            known.ends.add(request);
        } else {
            daemon(new Thread(() -> {
                try {
                    say(Map.of("id", request.number("id"), "ok", does(what, request)));
                } catch (Exception e) {
                    fail(request, e);
                }
            })).start();
        }
    }

    private static Thread daemon(Thread thread) {
        thread.setDaemon(true);
        return thread;
    }

    private Map<String, Object> does(String what, Request request) throws Exception {
        switch (what) {
            case "open" -> open(request);
            case "cancel" -> Optional.ofNullable(byRequest.get(request.number("of"))).ifPresent(Task::cancel);
            case "finish", "fail" ->
                Optional.ofNullable(byRequest.get(request.number("of"))).ifPresent(task -> task.finish(request));
            // Nothing that one thread does keeps the others of a JVM from running.
            case "block" -> Thread.sleep(request.number("for"));
            case "close" -> close();
            case "lead" -> new Leader(request).lead();
            case "once" -> {
                return Map.of("value", new Asker(request).ask());
            }
            case "forget" -> client(opened).forget(request.text("once"));
            case "look" -> {
                return byName.get(request.text("held")).look();
            }
            default -> throw new IllegalArgumentException("nothing is known of that: " + request.fields);
        }
        return what.equals("open") ? Map.of("without", WITHOUT) : Map.of();
    }

    private void open(Request request) {
        opened = request;
        client(request);
    }

    /** The client with leases of the length that the request wants. */
    private RedissonLocks client(Request request) {
        Request lease = request.has("lease") ? request : opened;
        return clients.computeIfAbsent(lease.has("lease") ? lease.number("lease") : USUAL_LEASE_MS, this::client);
    }

    private RedissonLocks client(int leaseMs) {
        Request request = opened;
        Config config = new Config();
        BaseConfig<?> servers;
        if (request.has("cluster")) {
            servers = config.useClusterServers().addNodeAddress(request.texts("cluster"));
        } else if (request.has("sentinels")) {
            servers = config.useSentinelServers().addSentinelAddress(request.texts("sentinels"))
                    .setMasterName(request.text("master"));
        } else {
            // A client that is opened later may be in trouble already, and is not to begin with two dozen connections.
            servers = config.useSingleServer().setAddress(request.text("url"))
                    .setConnectionMinimumIdleSize(clients.isEmpty() ? FIRST_CONNECTIONS : 1);
        }
        servers.setClientName(request.text("name"));
        config.setLockWatchdogTimeout(leaseMs);
        if (request.has("answer")) {
            servers.setTimeout(request.number("answer"));
        }
        if (request.has("patience")) {
            int patienceMs = request.number("patience");
            boolean isOneTry = patienceMs < servers.getTimeout();
            servers.setRetryDelay(new ConstantDelay(Duration.ofMillis(PAUSE_MS)))
                    .setRetryAttempts(isOneTry ? 0 : patienceMs / PAUSE_MS)
                    .setTimeout(isOneTry ? patienceMs : servers.getTimeout());
        }
        RedissonClient redisson = Redisson.create(config);
        try {
            RedissonLocks locks = RedissonLocks.of(redisson);
            locks.onLost(this::lost);
            return locks;
        } catch (RuntimeException e) {
            redisson.shutdown(0, 5, TimeUnit.SECONDS);
            throw e;
        }
    }

    /** Closes like a service that ends in good order. The shutdown ends all waits, too, but leaves holds to their leases. */
    private void close() throws InterruptedException {
        isClosing = true;
        List<Task> tasks = List.copyOf(byRequest.values());
        List<Holder> holders = List.copyOf(byName.values());
        tasks.forEach(Task::cancel);
        for (Task task : tasks) {
            task.awaitEnd();
        }
        holders.forEach(Thread::interrupt);
        for (Holder holder : holders) {
            holder.join(CLOSING_MS);
        }
        clients.values().forEach(locks -> locks.getRedisson().shutdown(0, 5, TimeUnit.SECONDS));
    }

    private void lost(LostLock lost) {
        byName.values().stream().filter(holder -> holder.getId() == lost.getThreadId())
                .forEach(holder -> holder.lost(lost));
    }

    private void fail(Request request, Exception e) {
        fail(request, e, null);
    }

    /** @param lost the loss that was reported before; null if there was none */
    private void fail(Request request, Exception e, LostLock lost) {
        String text = causes(e).map(String::valueOf).collect(Collectors.joining(", because of "));
        Map<String, Object> failure =
                new HashMap<>(Map.of("id", request.number("id"), "error", word(request, e), "text", text));
        causes(e).filter(LockLostException.class::isInstance).map(cause -> ((LockLostException) cause).getReason())
                .findFirst().or(() -> Optional.ofNullable(lost).map(LostLock::getReason))
                .ifPresent(reason -> failure.put("reason", reason.word()));
        say(failure);
    }

    private String word(Request request, Exception error) {
        Stream<String> codes = causes(error).map(cause -> BY_CODE.get(("" + cause.getMessage()).split("[ .:]", 2)[0]));
        Stream<String> classes = causes(error).flatMap(cause ->
                Stream.<Class<?>>iterate(cause.getClass(), Objects::nonNull, Class::getSuperclass).map(BY_CLASS::get));
        String word = Stream.concat(codes, classes).filter(Objects::nonNull).findFirst()
                .orElse(error instanceof RedisException ? "refused" : "configuration");
        return switch (word) {
            case "cancelled" -> isClosing ? "closed" : word;
            // The module was there when the client was opened.
            case "no-module" -> request.text("do").equals("once") ? "old-module" : word;
            case "in-doubt" -> request.text("do").equals("release") ? word : "unavailable";
            default -> word;
        };
    }

    private static void failIfRefused(Request request) {
        for (String field : REFUSED) {
            if (request.has(field)) {
                throw new IllegalArgumentException("not for a wrapped lock: " + field);
            }
        }
    }

    private static Stream<Throwable> causes(Throwable error) {
        return Stream.iterate(error, Objects::nonNull, Throwable::getCause);
    }

    private void say(Map<String, ?> line) {
        // In one piece, whatever other threads write.
        out.print(json(line) + "\n");
        out.flush();
    }

    private static String json(Object value) {
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream().map(field -> json(field.getKey()) + ":" + json(field.getValue()))
                    .collect(Collectors.joining(",", "{", "}"));
        } else if (value instanceof Collection<?> all) {
            return all.stream().map(WrappedAdapter::json).collect(Collectors.joining(",", "[", "]"));
        } else if (value instanceof String text) {
            return text.chars().mapToObj(c -> c < ' ' || c == '"' || c == '\\'
                    ? String.format("\\u%04x", c) : "" + (char) c).collect(Collectors.joining("", "\"", "\""));
        }
        return String.valueOf(value);
    }

    /** A task that the suite may end. */
    private interface Task {
        void cancel();

        /** @param how with the value, or that the work is to fail */
        void finish(Request how);

        /** For tasks that must be over before the client is closed. */
        default void awaitEnd() throws InterruptedException {
        }
    }

    /** A caller of {@code once}. */
    private final class Asker implements Task {
        private final Request request;
        private final Thread thread = Thread.currentThread();
        private final CompletableFuture<Request> finish = new CompletableFuture<>();
        private final CountDownLatch isOver = new CountDownLatch(1);
        private volatile boolean isWorking;

        Asker(Request request) {
            this.request = request;
        }

        String ask() throws Exception {
            failIfRefused(request);
            RedissonLocks locks = client(request);
            byRequest.put(request.number("id"), this);
            try {
                String key = request.text("once");
                Duration keep = Duration.ofMillis(request.number("keep"));
                return request.has("wait")
                        ? locks.onceText(key, keep, Duration.ofMillis(request.number("wait")), this::work)
                        : locks.onceText(key, keep, this::work);
            } finally {
                byRequest.remove(request.number("id"), this);
                isOver.countDown();
            }
        }

        private String work() throws Exception {
            isWorking = true;
            say(Map.of("began", request.number("id")));
            Request how = finish.get();
            if (how.text("do").equals("fail")) {
                throw new Failed();
            }
            return how.text("value");
        }

        @Override
        public void cancel() {
            thread.interrupt();
        }

        @Override
        public void finish(Request how) {
            if (isWorking) {
                finish.complete(how);
            }
        }

        @Override
        public void awaitEnd() throws InterruptedException {
            isOver.await(CLOSING_MS, TimeUnit.MILLISECONDS);
        }
    }

    /** The leader of a lock. */
    private final class Leader implements Task {
        private final Request request;
        private final BlockingQueue<Boolean> finishes = new LinkedBlockingQueue<>();
        private Lead lead;
        private volatile boolean isWorking;

        Leader(Request request) {
            this.request = request;
        }

        void lead() throws Exception {
            RedissonLocks locks = client(request);
            byRequest.put(request.number("id"), this);
            synchronized (this) {
                lead = locks.lead(locks.getLock(request.text("lock")), this::work);
            }
            try {
                lead.end().get();
            } finally {
                byRequest.remove(request.number("id"), this);
            }
            throw new InterruptedException();
        }

        private void work() throws InterruptedException {
            finishes.clear();
            isWorking = true;
            say(Map.of("began", request.number("id")));
            try {
                finishes.take();
            } finally {
                isWorking = false;
                say(Map.of("ended", request.number("id")));
            }
        }

        @Override
        public synchronized void cancel() {
            lead.close();
        }

        @Override
        public void finish(Request how) {
            if (isWorking) {
                finishes.add(true);
            }
        }
    }

    /** The thread of what is held by one name. */
    private final class Holder extends Thread implements Task {
        final BlockingQueue<Request> ends = new LinkedBlockingQueue<>();
        final AtomicReference<LostLock> lost = new AtomicReference<>();
        private final Request request;
        private final String held;
        /** The end of the work. */
        private final CompletableFuture<Void> end = new CompletableFuture<>();
        private boolean isWaiting = true;
        private RedissonLocks locks;
        private volatile RLock lock;
        /** In place of a lock. */
        private volatile Permits permits;
        /** In place of both: a hold that no thread has. */
        private volatile HeldLock hold;

        Holder(Request request) {
            this.request = request;
            held = request.text("held");
        }

        void begin() {
            byRequest.put(request.number("id"), this);
            byName.put(held, this);
            daemon(this).start();
        }

        private void forget() {
            byRequest.remove(request.number("id"), this);
            byName.remove(held, this);
        }

        @Override
        public synchronized void cancel() {
            if (isWaiting) {
                interrupt();
            }
        }

        /** A cancel that comes too late must not disturb a granted request. */
        private synchronized void waitsNoMore() {
            isWaiting = false;
            if (!isClosing) {
                interrupted();
            }
        }

        @Override
        public void finish(Request how) {
            end.complete(null);
        }

        /** A hold that is no longer guaranteed counts as lost before its loss is reported. */
        Map<String, Object> look() {
            long remaining = lost.get() != null ? 0 : remaining();
            return Map.of("lost", remaining == 0, "remaining", remaining);
        }

        /** Reports a loss once: a lock of several is lost with the first of them. */
        void lost(LostLock what) {
            if (lost.compareAndSet(null, what)) {
                say(Map.of("lost", held, "reason", what.getReason().word(), "why", what.toString()));
            }
        }

        @Override
        public void run() {
            Map<String, Object> said = new HashMap<>();
            try {
                if (request.text("do").equals("run")) {
                    work();
                    forget();
                    say(Map.of("id", request.number("id"), "ok", Map.of()));
                    return;
                }
                try {
                    if (request.text("do").equals("adopt")) {
                        locks = client(request);
                        holds(locks.adopt(request.text("text")), said);
                    } else if (request.has("wait") || request.has("fixed")) {
                        acquire().ifPresent(token -> said.put("token", token));
                    } else {
                        holds(hold(), said);
                    }
                } finally {
                    waitsNoMore();
                }
                if (isClosing) {
                    giveUp();
                    throw new RedissonShutdownException("closed at that moment");
                }
            } catch (Exception e) {
                forget();
                fail(request, e);
                return;
            }
            said.put("holder", hold != null ? hold.getHolder() : locks.getRedisson().getId() + ":" + getId());
            say(Map.of("id", request.number("id"), "ok", said));
            keep();
        }

        private void holds(HeldLock held, Map<String, Object> said) {
            hold = held;
            hold.lost().thenAccept(this::lost);
            List<Long> tokens = hold.getTokens();
            if (tokens.size() == 1) {
                said.put("token", tokens.get(0));
            } else if (!tokens.isEmpty()) {
                said.put("tokens", tokens);
            }
        }

        /** Acquires without a limit to the wait, so that both ways to have a lock are tried. This hold can be detached. */
        private HeldLock hold() throws InterruptedException {
            failIfRefused(request);
            locks = client(request);
            if (request.has("permit")) {
                permits = locks.getPermits(request.text("permit"), request.number("limit"));
                return locks.hold(permits);
            }
            return locks.hold(lock());
        }

        /** Acquires. Returns the token, if one was requested. */
        private Optional<Long> acquire() throws Exception {
            failIfRefused(request);
            locks = client(request);
            long lease = request.has("fixed") ? request.number("fixed") : -1;
            boolean isInTime = true;
            Long token = null;
            if (request.has("fenced")) {
                // By the asynchronous methods, since a wait in the others cannot be given up.
                RFencedLock fenced = locks.getFencedLock(request.text("lock"));
                lock = fenced;
                token = get(!request.has("wait") ? fenced.lockAndGetTokenAsync(lease, TimeUnit.MILLISECONDS)
                        : fenced.tryLockAndGetTokenAsync(request.number("wait"), lease, TimeUnit.MILLISECONDS));
                isInTime = token != null;
            } else if (request.has("permit")) {
                permits = locks.getPermits(request.text("permit"), request.number("limit"));
                // No test waits longer than that.
                Duration wait = request.has("wait") ? Duration.ofMillis(request.number("wait")) : Duration.ofDays(1);
                isInTime = permits.tryAcquire(wait);
            } else {
                lock = lock();
                if (request.has("wait")) {
                    isInTime = lock.tryLock(request.number("wait"), lease, TimeUnit.MILLISECONDS);
                } else {
                    lock.lockInterruptibly(lease, TimeUnit.MILLISECONDS);
                }
            }
            if (!isInTime) {
                throw new Busy();
            }
            return Optional.ofNullable(token);
        }

        private RLock lock() {
            if (request.has("all")) {
                return locks.getMultiLock(
                        Arrays.stream(request.texts("all")).map(locks::getLock).toArray(RLock[]::new));
            } else if (request.has("read")) {
                return locks.getReadWriteLock(request.text("read")).readLock();
            } else if (request.has("write")) {
                return locks.getReadWriteLock(request.text("write")).writeLock();
            }
            String name = request.text("lock");
            return request.has("fenced") ? locks.getFencedLock(name) : locks.getLock(name);
        }

        private static Long get(RFuture<Long> token) throws Exception {
            try {
                return token.get();
            } catch (InterruptedException e) {
                if (token.cancel(false)) {
                    throw e;
                }
                // The token came at this moment.
                return token.get();
            }
        }

        /** Does the work. The wrapper interrupts it when the lock is lost. */
        private void work() throws Exception {
            failIfRefused(request);
            locks = client(request);
            lock = lock();
            Callable<Void> work = () -> {
                waitsNoMore();
                Map<String, Object> began = new HashMap<>(Map.of("began", request.number("id")));
                if (request.has("fenced")) {
                    began.put("token", ((RFencedLock) lock).getToken());
                }
                say(began);
                return end.get();
            };
            if (request.has("wait")) {
                locks.call(lock, Duration.ofMillis(request.number("wait")), work);
            } else {
                locks.call(lock, work);
            }
        }

        private long remaining() {
            Duration remaining =
                    hold != null ? hold.remaining()
                            : permits == null ? locks.remaining(lock, getId()) : permits.remaining(getId());
            return remaining.toMillis();
        }

        private void unlock() {
            if (hold != null) {
                hold.unlock();
            } else if (permits == null) {
                lock.unlock();
            } else {
                permits.release();
            }
        }

        private void giveUp() {
            try {
                unlock();
            } catch (RuntimeException e) {
                // A lost hold is gone, and a hold that cannot be reached ends with its lease.
            }
        }

        /** Keeps the hold until it is released: a release that failed may be tried again. */
        private void keep() {
            try {
                while (byName.get(held) == this) {
                    end(ends.take());
                }
            } catch (InterruptedException e) {
                forget();
                giveUp();
            }
        }

        private void end(Request end) {
            try {
                Map<String, Object> said = end.text("do").equals("detach") ? Map.of("text", detach(end)) : Map.of();
                if (said.isEmpty()) {
                    unlock();
                }
                forget();
                say(Map.of("id", end.number("id"), "ok", said));
            } catch (IllegalMonitorStateException e) {
                forget();
                fail(end, e, lost.get());
            } catch (RuntimeException e) {
                fail(end, e);
            }
        }

        private String detach(Request detach) {
            if (hold == null) {
                throw new IllegalArgumentException("a thread's hold cannot be detached: " + held);
            }
            return detach.has("within") ? hold.detach(Duration.ofMillis(detach.number("within"))) : hold.detach();
        }
    }
}
