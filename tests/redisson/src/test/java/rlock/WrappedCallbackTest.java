package rlock;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import rlock.redisson.RedissonLocks;

/** Callbacks of async methods that run longer than the first lease of a wait, which is 3 s. */
class WrappedCallbackTest {
    /** More threads than connections, so that a blocked thread reads no other connection's replies. */
    private static final int THREADS = 64;

    /** Such a lease is renewed every 2 s, and is not lost while the server is frozen for a moment. */
    private static final int PATIENT_MS = 6_000;

    private final RedissonLocks locks = WrappedFleet.with(config -> config.setLockWatchdogTimeout(Fleet.LONG_MS)
            .setNettyThreads(THREADS).useSingleServer().setAddress(Node.shared().address()));

    @AutoClose
    private final Native client = Node.shared().client();

    private final CountDownLatch mayReturn = new CountDownLatch(1);

    @AfterEach
    void disconnect() {
        mayReturn.countDown();
        WrappedFleet.end(locks);
    }

    private void block() {
        try {
            mayReturn.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void a_lock_is_renewed_while_its_callback_runs() {
        client.say("RLOCK.ACQUIRE callback other 60000");
        CompletableFuture<Void> running = new CompletableFuture<>();
        Waiter.inAQueue(() -> locks.getLock("callback").lockAsync().thenRun(() -> {
            running.complete(null);
            block();
        }));
        client.say("RLOCK.RELEASE callback other");
        running.join();
        Patience.until("its lease is whole", () -> client.number("PTTL callback") > Fleet.LONG_MS / 2);
    }

    /** While the server does not answer, a wait ends by the client's own clock, which also renews. */
    @Test
    void a_callback_that_blocks_after_a_timeout_stops_no_renewal() {
        Node node = Node.start();
        RedissonLocks own = WrappedFleet.with(config -> config.setLockWatchdogTimeout(PATIENT_MS)
                .setNettyThreads(THREADS).useSingleServer().setAddress(node.address()));
        own.getLock("kept").lock();
        CompletableFuture<Void> running = new CompletableFuture<>();
        node.freeze();
        own.getLock("other").tryLockAsync(1, TimeUnit.MILLISECONDS).whenComplete((result, error) -> {
            running.complete(null);
            block();
        });
        running.join();
        node.thaw();
        try (Native observer = node.client()) {
            long end = observer.number("PEXPIRETIME kept");
            Patience.until("it is renewed", () -> observer.number("PEXPIRETIME kept") > end);
        }
        mayReturn.countDown();
        WrappedFleet.end(own);
        node.stop();
    }
}
