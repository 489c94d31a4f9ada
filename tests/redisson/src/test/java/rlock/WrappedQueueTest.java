package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.redisson.api.RLock;
import rlock.redisson.RedissonLocks;

/** Java threads wait in the server's queue like all other clients, which Redisson's own locks cannot do. */
class WrappedQueueTest {
    private final RedissonLocks locks = WrappedFleet.shared();

    @AutoClose
    private final Native client = Node.shared().client();

    /** A thread in Redisson's own lock sleeps until the lease would have ended. */
    @Test
    void a_deleted_lock_is_granted_to_java() {
        assertNull(client.say("RLOCK.ACQUIRE deleted other 60000"));
        Waiter waiter = Waiter.java(locks.getLock("deleted"));
        client.say("DEL deleted");
        waiter.grantedAt();
    }

    /** A user without the right to renew shows it: a thread that had to renew first would be refused. */
    @Test
    void what_is_granted_after_a_wait_is_the_callers_without_another_request() {
        client.say("ACL SETUSER begins on >secret ~* &* +@all -rlock.renew");
        RedissonLocks begins = WrappedFleet.with(config -> config.setLockWatchdogTimeout(Fleet.LONG_MS).useSingleServer()
                .setUsername("begins").setPassword("secret").setAddress(Node.shared().address()));
        RLock lock = begins.getLock("begins");
        assertNull(client.say("RLOCK.ACQUIRE begins other 60000"));
        Waiter waiter = Waiter.inAQueue(lock::lock);
        assertEquals(1L, client.say("RLOCK.RELEASE begins other"));
        waiter.grantedAt();
        lock.forceUnlock();
        WrappedFleet.end(begins);
    }

    /** If others wait, a request goes to the queue at once, with a short lease: but not the request of the holder. */
    @Test
    void a_holder_that_enters_again_keeps_its_lease() {
        RedissonLocks patient = WrappedFleet.with(config ->
                config.setLockWatchdogTimeout(Fleet.LONG_MS).useSingleServer().setAddress(Node.shared().address()));
        RLock lock = patient.getLock("again");
        lock.lock();
        Waiter waiter = Waiter.java(lock);
        lock.lock();
        assertTrue(client.number("PTTL again") > Fleet.LONG_MS / 2);
        assertTrue(patient.remaining(lock).toMillis() > Fleet.LONG_MS / 2);
        lock.unlock();
        lock.unlock();
        waiter.grantedAt();
        WrappedFleet.end(patient);
    }

    /** The first lease of a wait is short, and the watchdog does not renew a lease that the caller has chosen. */
    @Test
    void after_a_wait_a_lease_of_its_own_is_whole() {
        assertNull(client.say("RLOCK.ACQUIRE whole other 60000"));
        Waiter waiter = Waiter.javaToStay(locks.getLock("whole"));
        assertEquals(1L, client.say("RLOCK.RELEASE whole other"));
        waiter.grantedAt();
        assertTrue(client.number("PTTL whole") > Fleet.LONG_MS / 2);
        locks.getLock("whole").forceUnlock();
    }

    /** The server has one place for all waits of a holder. */
    @Test
    void the_waits_of_one_thread_go_one_after_the_other() {
        assertNull(client.say("RLOCK.ACQUIRE turns other 60000"));
        RLock lock = locks.getLock("turns");
        List<CompletableFuture<Void>> both = List.of(lock.lockAsync(60, SECONDS, 8_000).toCompletableFuture(),
                lock.lockAsync(60, SECONDS, 8_000).toCompletableFuture());
        assertFalse(lock.tryLockAsync(100, 60_000, MILLISECONDS, 8_000).toCompletableFuture().join());
        assertEquals(1L, client.say("RLOCK.RELEASE turns other"));
        both.forEach(CompletableFuture::join);
        Fleet.unlock(lock, 8_000);
        assertEquals(1L, client.say("EXISTS turns"), "it was granted twice");
        Fleet.unlock(lock, 8_000);
        assertEquals(0L, client.say("EXISTS turns"));
    }
}
