package rlock.redisson;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.redisson.api.RLock;

/**
 * One lock of {@link InMemoryLocks}, or several as one. Redisson's interfaces have the same few methods in many forms:
 * with and without a lease, a wait, a thread's id, and as futures. So one handler reads the form from the name and the
 * arguments.
 */
final class InMemoryLock implements InvocationHandler, Watched {
    final List<InMemoryHolds> members;
    final Side side;

    InMemoryLock(Side side, List<InMemoryHolds> members) {
        this.side = side;
        this.members = members;
    }

    static <L extends RLock> L of(Class<L> type, Side side, List<InMemoryHolds> members) {
        return type.cast(Proxy.newProxyInstance(InMemoryLock.class.getClassLoader(),
                new Class<?>[] {type, Watched.class}, new InMemoryLock(side, members)));
    }

    static InMemoryLock of(RLock lock) {
        if (Proxy.isProxyClass(lock.getClass()) && Proxy.getInvocationHandler(lock) instanceof InMemoryLock) {
            return (InMemoryLock) Proxy.getInvocationHandler(lock);
        }
        throw new IllegalArgumentException("not a lock of InMemoryLocks: " + lock);
    }

    /** The arguments of one call: durations come before their unit, a thread's id comes behind it or alone. */
    private static final class Form {
        final boolean isAsync;
        final boolean isTry;
        final boolean isInterruptible;
        final boolean canWait;
        final boolean hasToken;
        final long wait;
        final long lease;
        final long thread;

        Form(String name, Object[] arguments) {
            List<Object> all = arguments == null ? List.of() : Arrays.asList(arguments);
            isAsync = name.endsWith("Async");
            isTry = name.startsWith("try");
            hasToken = name.contains("AndGetToken");
            int unit = (int) all.stream().takeWhile(one -> !(one instanceof TimeUnit)).count();
            boolean hasUnit = unit < all.size();
            List<Long> times = new ArrayList<>();
            for (int i = 0; hasUnit && i < unit; i++) {
                times.add(((TimeUnit) all.get(unit)).toNanos((Long) all.get(i)));
            }
            wait = !isTry ? InMemoryHolds.FOR_EVER : times.isEmpty() ? 0 : times.remove(0);
            lease = times.isEmpty() || times.get(0) <= 0 ? InMemoryHolds.FOR_EVER : times.get(0);
            canWait = name.startsWith("lock") || isTry && wait > 0;
            boolean hasThread = !all.isEmpty() && all.get(all.size() - 1) instanceof Long;
            thread = hasThread ? (Long) all.get(all.size() - 1) : NativeLock.me();
            isInterruptible = !isAsync && (name.startsWith("lockInterruptibly") || isTry && hasUnit);
        }
    }

    @Override
    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        if (method.getDeclaringClass() == Watched.class) {
            try {
                return method.invoke(this, arguments);
            } catch (InvocationTargetException e) {
                throw e.getCause();
            }
        }
        String name = method.getName();
        if (name.equals("equals")) {
            return proxy == arguments[0];
        }
        Form form = new Form(name, arguments);
        if (!form.isAsync) {
            return answer(name, form);
        }
        CompletableFuture<Object> later = new CompletableFuture<>();
        Callable<Object> work = () -> answer(name.substring(0, name.length() - "Async".length()), form);
        if (form.canWait) {
            inAThread("waits for " + name(), work, later);
        } else {
            complete(later, work);
        }
        return Server.asRedissons(later);
    }

    static <T> Thread inAThread(String name, Callable<T> work, CompletableFuture<T> result) {
        Thread thread = new Thread(() -> complete(result, work), name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private static <T> void complete(CompletableFuture<T> result, Callable<T> work) {
        try {
            result.complete(work.call());
        } catch (Throwable e) {
            result.completeExceptionally(Server.cause(e));
        }
    }

    String name() {
        return members.stream().map(holds -> holds.name).collect(Collectors.joining(","));
    }

    private Object answer(String name, Form form) throws InterruptedException {
        InMemoryHolds first = members.get(0);
        switch (name) {
            case "lock":
            case "lockInterruptibly":
            case "tryLock":
            case "lockAndGetToken":
            case "tryLockAndGetToken":
                return acquired(form);
            case "unlock":
                return released(form.thread);
            case "forceUnlock":
                return members.stream().filter(InMemoryHolds::lose).count() > 0;
            case "isLocked":
                return first.restMs(side) >= 0;
            case "isHeldByThread":
            case "isHeldByCurrentThread":
                return first.count(side, form.thread) > 0;
            case "getHoldCount":
                return first.count(side, form.thread);
            case "remainTimeToLive":
                return first.restMs(side);
            case "getToken":
                return first.lastToken();
            case "getName":
                return name();
            case "hashCode":
                return System.identityHashCode(this);
            case "toString":
                return "InMemoryLock{" + name() + "}";
            default:
                throw new UnsupportedOperationException("locks in memory do not have " + name);
        }
    }

    /** @return null, whether all are granted, or the token, as the form asks */
    private Object acquired(Form form) throws InterruptedException {
        if (form.isInterruptible) {
            NativeLock.failIfInterrupted();
        }
        Long token = acquire(1, form.thread, form.wait, form.lease, form.isInterruptible);
        return form.hasToken ? token : form.isTry ? (Object) (token != null) : null;
    }

    /** @return the token of the last one; null if the wait is over */
    Long acquire(int limit, long thread, long wait, long lease, boolean isInterruptible) throws InterruptedException {
        long began = System.nanoTime();
        Long token = null;
        for (InMemoryHolds holds : members) {
            long rest = wait == InMemoryHolds.FOR_EVER ? wait : wait - (System.nanoTime() - began);
            boolean isGranted = false;
            try {
                token = holds.acquire(side, limit, thread, rest, lease, isInterruptible);
                isGranted = token != null;
            } finally {
                if (!isGranted) {
                    members.stream().takeWhile(one -> one != holds).forEach(one -> one.release(side, thread));
                }
            }
            if (!isGranted) {
                break;
            }
        }
        return token;
    }

    private Object released(long thread) {
        if (members.stream().filter(holds -> holds.release(side, thread)).count() < members.size()) {
            throw new IllegalMonitorStateException(name() + " is not held by thread " + thread);
        }
        return null;
    }

    @Override
    public long remainingMs(long thread) {
        return members.stream().mapToLong(holds -> holds.restMs(side, thread)).min().orElse(0);
    }

    @Override
    public CompletableFuture<LostLock> loss(long thread) {
        return Watched.firstOf(
                members.stream().map(holds -> holds.loss(side, thread)).collect(Collectors.toList()), Runnable::run);
    }

    @Override
    public LostLock lossByNow(long thread) {
        return remainingMs(thread) > 0 ? null : new LostLock(name(), thread, null, LossReason.ENDED, null);
    }

    @Override
    public void end(long thread) {
        released(thread);
    }

    @Override
    public CompletableFuture<Boolean> restartLease(long leaseMs, long thread) {
        return CompletableFuture.completedFuture(restart(Clock.ns(leaseMs), thread));
    }

    /** @return whether all are held */
    boolean restart(long lease, long thread) {
        return members.stream().filter(holds -> holds.restart(side, thread, lease)).count() == members.size();
    }
}
