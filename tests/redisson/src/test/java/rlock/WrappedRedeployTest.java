package rlock;

import java.io.File;
import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import io.netty.channel.nio.NioEventLoopGroup;
import org.junit.jupiter.api.Test;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import rlock.redisson.RedissonLocks;

/** An application that its container ends and starts again: the container must not keep the old one's classes. */
class WrappedRedeployTest {
    /** Ends with far timers: a hold that the watchdog keeps, one with a long lease, and a wait that is over. */
    public static final class Application implements Consumer<String> {
        @Override
        public void accept(String address) {
            RedissonClient redisson = Fleet.plainWith(config ->
                    config.setLockWatchdogTimeout(Fleet.LONG_MS).useSingleServer().setAddress(address));
            RedissonLocks locks = RedissonLocks.of(redisson);
            RLock kept = locks.getLock("redeployed:kept");
            kept.lock();
            locks.getLock("redeployed:leased").lock(1, TimeUnit.HOURS);
            if (kept.tryLockAsync(1, -1, TimeUnit.MILLISECONDS, 0).toCompletableFuture().join()) {
                throw new AssertionError("it was not free");
            }
            Fleet.end(redisson);
        }
    }

    @Test
    void the_class_loader_is_collected_after_the_shutdown() throws Exception {
        WeakReference<ClassLoader> loader = deploy(Application.class);
        Patience.until("the class loader is collected", () -> {
            System.gc();
            return loader.get() == null;
        });
    }

    /** Redisson does not end threads that a service has lent to it, so their end does not show the shutdown. */
    @Test
    void the_clock_ends_although_lent_threads_go_on() {
        NioEventLoopGroup lent = new NioEventLoopGroup(4);
        RedissonLocks locks = WrappedFleet.with(config -> config.setEventLoopGroup(lent)
                .setLockWatchdogTimeout(Fleet.LONG_MS).useSingleServer().setAddress(Node.shared().address()));
        Set<Thread> before = clocks();
        locks.getLock("lent").lock(1, TimeUnit.HOURS);
        Set<Thread> own = clocks();
        own.removeAll(before);
        locks.getLock("lent").forceUnlock();
        WrappedFleet.end(locks);
        Patience.until("its thread has ended", () -> own.stream().noneMatch(Thread::isAlive));
        lent.shutdownGracefully(0, 5, TimeUnit.SECONDS).syncUninterruptibly();
    }

    private static Set<Thread> clocks() {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().equals("rlock-clock")).collect(Collectors.toSet());
    }

    private static WeakReference<ClassLoader> deploy(Class<?> application) throws Exception {
        List<URL> urls = new ArrayList<>();
        for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
            urls.add(new File(path).toURI().toURL());
        }
        ClassLoader loader = new URLClassLoader(urls.toArray(URL[]::new), ClassLoader.getPlatformClassLoader());
        @SuppressWarnings("unchecked")
        Consumer<String> own = (Consumer<String>) loader.loadClass(application.getName()).getConstructor().newInstance();
        // The node's threads are the test's, not the application's.
        String address = Node.shared().address();
        CompletableFuture<Void> end = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                own.accept(address);
                end.complete(null);
            } catch (Throwable e) {
                end.completeExceptionally(e);
            }
        });
        thread.setContextClassLoader(loader);
        thread.start();
        end.join();
        // Netty leaves values of its own behind in each thread that has used it.
        thread.join();
        return new WeakReference<>(loader);
    }
}
