package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.redisson.api.RLock;
import org.redisson.client.RedisException;
import rlock.redisson.RedissonLocks;

/** A server that stalls, and a client that is shut down. */
class WrappedFailureTest {
    private final Node node = Node.start();

    @AutoClose
    private final Native client = node.client();

    private final RedissonLocks locks = WrappedFleet.with(config ->
            config.useSingleServer().setAddress(node.address()).setTimeout(500).setRetryAttempts(1));

    @AfterEach
    void stop() {
        WrappedFleet.end(locks);
        node.stop();
    }

    /** No process knows of the second hold. It goes with the first. */
    @Test
    void the_last_unlock_releases_a_re_entry_without_a_reply() {
        RLock lock = locks.getLock("unheard:again");
        lock.lock(60, TimeUnit.SECONDS);
        node.freeze();
        assertThrows(RedisException.class, () -> lock.lock(60, TimeUnit.SECONDS));
        node.thaw();
        Patience.until("it was executed", () -> lock.getHoldCount() == 2);
        lock.unlock();
        assertEquals(0L, client.say("EXISTS unheard:again"));
    }

    /** With Redisson's own exception and in its time limits. */
    @Test
    void a_wait_ends_with_an_error_when_the_server_stalls() {
        client.say("RLOCK.ACQUIRE busy other 60000");
        Waiter waiter = Waiter.inAQueue(() -> assertThrows(RedisException.class, locks.getLock("busy")::lock));
        node.freeze();
        waiter.grantedAt();
        node.thaw();
    }

    /** Every kind of wait. Redisson's own locks would wait forever. */
    @Test
    void every_wait_ends_when_the_client_is_shut_down() {
        client.say("RLOCK.ACQUIRE shut other 60000");
        client.say("RLOCK.WACQUIRE shut:rw other 60000");
        RLock lock = locks.getLock("shut");
        List<Executable> ways = List.of(lock::lock, () -> lock.lock(60, TimeUnit.SECONDS), lock::lockInterruptibly,
                () -> lock.tryLock(60, TimeUnit.SECONDS), () -> lock.lockAsync().toCompletableFuture().join(),
                locks.getFencedLock("shut")::lockAndGetToken, locks.getReadWriteLock("shut:rw").readLock()::lock,
                locks.getMultiLock(locks.getLock("shut"), locks.getLock("shut:2"))::lock);
        List<Waiter> waiters = ways.stream()
                .map(way -> Waiter.inAQueue(() -> assertThrows(Exception.class, way))).collect(Collectors.toList());
        WrappedFleet.end(locks);
        waiters.forEach(Waiter::grantedAt);
    }
}
