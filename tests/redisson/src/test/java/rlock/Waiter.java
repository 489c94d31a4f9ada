package rlock;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/** A thread that waits for a lock, and the moment at which the wait was over. */
final class Waiter {
    private final CompletableFuture<Long> granted = new CompletableFuture<>();
    private final Thread thread;

    private Waiter(Runnable wait) {
        thread = new Thread(() -> {
            try {
                wait.run();
                granted.complete(System.nanoTime());
            } catch (Throwable e) {
                granted.completeExceptionally(e);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    /** A thread that may or may not have to wait. */
    static Waiter start(Runnable wait) {
        return new Waiter(wait);
    }

    /** A Java thread that takes the lock and releases it; returns once it sleeps in lock(). */
    static Waiter java(RLock lock) {
        return asleep(() -> {
            lock.lock();
            lock.unlock();
        });
    }

    /** A Java thread that takes the lock and keeps it. */
    static Waiter javaToStay(RLock lock) {
        return asleep(() -> lock.lock(Fleet.LONG_MS, TimeUnit.MILLISECONDS));
    }

    /** The same with a lock of Redisson's own, whatever is tested. */
    static Waiter listening(RLock lock) {
        return asleepInRedisson(() -> {
            lock.lock();
            lock.unlock();
        });
    }

    private static Waiter asleep(Runnable wait) {
        return Fleet.IS_WRAPPED ? inAQueue(wait) : asleepInRedisson(wait);
    }

    private static Waiter asleepInRedisson(Runnable wait) {
        Waiter waiter = new Waiter(wait);
        Patience.untilAsleep(waiter.thread);
        return waiter;
    }

    /** A thread that waits by a ticket; returns once a server keeps it. */
    static Waiter inAQueue(Runnable wait) {
        long before = Node.tickets();
        Waiter waiter = new Waiter(wait);
        Patience.until("a ticket waits", () -> Node.tickets() > before);
        return waiter;
    }

    /** A client that runs the command, which ends in its WAIT; returns once the server keeps it waiting. */
    static Waiter rlock(Node node, String command) {
        Waiter waiter;
        try (Native observer = node.client()) {
            long before = waiting(observer);
            waiter = new Waiter(() -> {
                try (Native own = node.client()) {
                    Object reply = own.say(command);
                    if (reply != null) {
                        throw new AssertionError("not granted: " + reply);
                    }
                }
            });
            Patience.until("the server keeps the waiter", () -> waiting(observer) > before);
        }
        return waiter;
    }

    /** How many waiters the server has. */
    static long waiting(Native observer) {
        String info = (String) observer.say("INFO rlock");
        return Long.parseLong(info.split("rlock_waiters:|waiters:")[1].split("\r\n")[0]);
    }

    boolean isWaiting() {
        return !granted.isDone();
    }

    /** The System.nanoTime at which it was granted. */
    long grantedAt() {
        try {
            return granted.get(Patience.LIMIT.toSeconds(), TimeUnit.SECONDS);
        } catch (Exception e) {
            throw new AssertionError("never granted", e);
        }
    }
}
