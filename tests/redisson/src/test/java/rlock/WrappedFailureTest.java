package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.redisson.api.RLock;
import org.redisson.client.RedisException;
import rlock.redisson.LostLock;
import rlock.redisson.RedissonLocks;

/** Servers that stand still or go, processes that are killed, replies that never come. */
class WrappedFailureTest {
    private static final int TIMEOUT_MS = 500;

    private final BlockingQueue<LostLock> losses = new LinkedBlockingQueue<>();
    private Node node;
    private RedissonLocks locks;
    private Native client;
    private Runnable listening;

    @BeforeEach
    void start() {
        node = Node.start("--repl-diskless-sync-delay", "0");
        client = node.client();
        locks = WrappedFleet.with(config -> config.useSingleServer().setAddress(node.address())
                .setTimeout(TIMEOUT_MS).setRetryAttempts(1));
        listening = locks.onLost(losses::add);
    }

    @AfterEach
    void stop() {
        listening.run();
        WrappedFleet.end(locks);
        client.close();
        node.stop();
    }

    private LostLock loss() throws InterruptedException {
        LostLock lost = losses.poll(Patience.LIMIT.toSeconds(), TimeUnit.SECONDS);
        assertTrue(lost != null, "nobody was told");
        return lost;
    }

    @Test
    void a_lock_that_is_taken_away_is_told_of() throws Exception {
        locks.getLock("taken").lock();
        client.say("RLOCK.BREAK taken");
        client.say("RLOCK.ACQUIRE taken other 60000");
        LostLock lost = loss();
        assertEquals("taken", lost.getName());
        assertEquals(Thread.currentThread().getId(), lost.getThreadId());
        assertEquals(Thread.currentThread(), lost.getThread().orElseThrow());
        assertTrue(lost.getCause().isEmpty(), "the server has said so");
        assertThrows(IllegalMonitorStateException.class, locks.getLock("taken")::unlock);
        assertEquals("1", client.say("HGET taken other"));
    }

    /** What was given back, and what was to end, is not lost. */
    @Test
    void what_ends_as_it_should_is_told_to_nobody() {
        locks.getLock("given-back").lock();
        locks.getLock("given-back").unlock();
        locks.getLock("fixed").lock(200, TimeUnit.MILLISECONDS);
        locks.getLock("kept").lock();
        long end = client.number("PEXPIRETIME kept");
        Patience.until("two leases are over", () -> System.currentTimeMillis() > end + Fleet.WATCHDOG_MS);
        locks.getLock("kept").unlock();
        assertEquals(List.of(), List.copyOf(losses));
    }

    @Test
    void a_server_that_stands_still_keeps_nobody_and_the_loss_is_told_in_time() throws Exception {
        RLock held = locks.getLock("held");
        held.lock();
        client.say("RLOCK.ACQUIRE busy other 60000");
        Waiter waiter = Waiter.inAQueue(() -> assertThrows(RedisException.class, locks.getLock("busy")::lock));
        long renewed = client.number("PEXPIRETIME held");
        Patience.until("it is renewed", () -> client.number("PEXPIRETIME held") > renewed);
        long end = client.number("PEXPIRETIME held");
        node.freeze();
        LostLock lost = loss();
        // The clock of a lease begins when it is asked for, so nobody is told later than the server lets others in.
        assertTrue(System.currentTimeMillis() < end + Fleet.WATCHDOG_MS, "told too late");
        assertEquals("held", lost.getName());
        assertTrue(lost.getCause().isPresent());
        waiter.grantedAt();
        assertThrows(RedisException.class, () -> locks.getLock("free").tryLock());
        assertThrows(RedisException.class, () -> locks.getLock("free").tryLock(1, TimeUnit.SECONDS));
        assertThrows(RedisException.class, held::unlock);
        node.thaw();
        // What was asked for meanwhile is given back, long before its lease would end.
        Patience.until("nobody holds anything", () -> client.say("KEYS *").equals(List.of("busy")));
        client.say("RLOCK.RELEASE busy other");
        held.lock();
        assertEquals(1, held.getHoldCount());
        held.unlock();
        assertFalse(held.isLocked());
    }

    /** The server executes the request after the client has given up on it. */
    @Test
    void a_lock_whose_grant_was_never_heard_of_is_given_back() throws Exception {
        RLock lock = locks.getLock("unheard");
        locks.getRedisson().getBucket("warm").get();
        for (int i = 0; i < 5; i++) {
            Thread sleep = sleeping(3 * TIMEOUT_MS);
            assertThrows(RedisException.class, () -> lock.tryLock(0, 60, TimeUnit.SECONDS));
            sleep.join();
            Patience.until("nobody holds it", () -> client.say("EXISTS unheard").equals(0L));
        }
        assertTrue(lock.tryLock());
        assertEquals(1, lock.getHoldCount());
        lock.unlock();
    }

    /** A second hold that nobody knows of goes with the first. */
    @Test
    void the_last_unlock_gives_back_a_re_entry_that_was_never_heard_of() throws Exception {
        RLock lock = locks.getLock("unheard:again");
        lock.lock(60, TimeUnit.SECONDS);
        Thread sleep = sleeping(3 * TIMEOUT_MS);
        assertThrows(RedisException.class, () -> lock.lock(60, TimeUnit.SECONDS));
        sleep.join();
        Patience.until("it was executed", () -> lock.getHoldCount() == 2);
        lock.unlock();
        assertEquals(0L, client.say("EXISTS unheard:again"));
    }

    @Test
    void an_unlock_whose_reply_was_never_heard_is_made_good() throws Exception {
        RLock lock = locks.getLock("unlock");
        lock.lock();
        Thread sleep = sleeping(3 * TIMEOUT_MS);
        assertThrows(RedisException.class, lock::unlock);
        sleep.join();
        Patience.until("it is free", () -> client.say("EXISTS unlock").equals(0L));
    }

    /** Returns once the server sleeps. */
    private Thread sleeping(long ms) {
        Native sleeper = node.client();
        sleeper.send("DEBUG", "SLEEP", ms / 1_000.0);
        Thread thread = new Thread(() -> {
            sleeper.receive();
            sleeper.close();
        });
        thread.start();
        // Whoever is not answered at once comes behind it.
        Patience.until("the server sleeps", () -> {
            try (Native probe = node.impatient(50)) {
                probe.say("PING");
                return false;
            } catch (RuntimeException unanswered) {
                return true;
            }
        });
        return thread;
    }

    @Test
    void a_killed_jvm_neither_keeps_its_locks_nor_its_places() throws Exception {
        client.say("RLOCK.ACQUIRE jvm:busy other 60000");
        Process service = WrappedService.start(node, "jvm:held", "jvm:busy");
        try {
            assertEquals("locked", service.inputReader().readLine());
            Patience.until("it waits", () -> Node.tickets() == 1);
            Waiter heir = Waiter.rlock(node, "RLOCK.ACQUIRE jvm:held heir 60000 WAIT 0");
            Waiter next = Waiter.rlock(node, "RLOCK.ACQUIRE jvm:busy next 60000 WAIT 0");
            long end = client.number("PEXPIRETIME jvm:held");
            Patience.until("it is renewed", () -> client.number("PEXPIRETIME jvm:held") > end);
            service.destroyForcibly().waitFor();
            client.say("RLOCK.RELEASE jvm:busy other");
            next.grantedAt();
            heir.grantedAt();
            Patience.until("its places are gone", () -> Node.tickets() == 0);
        } finally {
            service.destroyForcibly();
        }
    }

    @Test
    void a_stopped_jvm_is_told_of_its_loss_when_it_goes_on() throws Exception {
        Process service = WrappedService.start(node, "stopped:held");
        try {
            assertEquals("locked", service.inputReader().readLine());
            signal("-STOP", service);
            Waiter heir = Waiter.rlock(node, "RLOCK.ACQUIRE stopped:held heir 60000 WAIT 0");
            heir.grantedAt();
            signal("-CONT", service);
            assertEquals("lost stopped:held", service.inputReader().readLine());
            assertEquals("1", client.say("HGET stopped:held heir"));
        } finally {
            service.destroyForcibly();
        }
    }

    private static void signal(String signal, Process process) throws Exception {
        new ProcessBuilder("kill", signal, "" + process.pid()).start().waitFor();
    }

    /** A replica becomes the master: who holds goes on holding, who waits waits there. */
    @Test
    void after_a_failover_holders_hold_and_waiters_wait_at_the_new_master() throws Exception {
        Node replica = Node.start("--replicaof", "127.0.0.1", "" + node.port());
        Patience.until("the replica follows", () -> ("" + client.say("INFO replication")).contains("state=online"));
        // Longer than Redisson takes to notice.
        RedissonLocks fleet = WrappedFleet.with(config -> config.setLockWatchdogTimeout(15_000).useReplicatedServers()
                .setScanInterval(200).addNodeAddress(node.address(), replica.address())
                .setTimeout(TIMEOUT_MS).setRetryAttempts(10));
        try (Native promoted = replica.client()) {
            RLock held = fleet.getLock("over:held");
            held.lock();
            assertNull(client.say("RLOCK.ACQUIRE over:busy other 60000"));
            Waiter waiter = Waiter.javaToStay(fleet.getLock("over:busy"));
            assertEquals(1L, client.say("WAIT 1 10000"));
            client.say("FAILOVER");
            Patience.until("it is promoted", () -> ("" + promoted.say("INFO replication")).contains("role:master"));
            Patience.until("it waits there", () -> ticketsAt(promoted) == 1);
            assertTrue(waiter.isWaiting());
            promoted.say("RLOCK.RELEASE over:busy other");
            waiter.grantedAt();
            assertEquals(1L, promoted.say("HLEN over:busy"));
            long end = promoted.number("PEXPIRETIME over:held");
            Patience.until("it is renewed there", () -> promoted.number("PEXPIRETIME over:held") > end);
            held.unlock();
            assertEquals(0L, promoted.say("EXISTS over:held"));
            assertEquals(List.of(), List.copyOf(losses));
        } finally {
            WrappedFleet.end(fleet);
            replica.stop();
        }
    }

    private static long ticketsAt(Native at) {
        return Long.parseLong(("" + at.say("INFO rlock")).split("tickets:")[1].split("\r\n")[0]);
    }

    /** A change of roles ends all tickets there: who waited asks again. */
    @Test
    void a_server_that_was_a_replica_for_a_moment_is_asked_again() {
        client.say("RLOCK.ACQUIRE again other 60000");
        Waiter waiter = Waiter.java(locks.getLock("again"));
        client.say("REPLICAOF 127.0.0.1 1");
        client.say("REPLICAOF NO ONE");
        Patience.until("it waits again", () -> Node.tickets() == 1);
        client.say("RLOCK.RELEASE again other");
        waiter.grantedAt();
    }

    /** However they wait. Redisson's own wait on for ever. */
    @Test
    void nobody_waits_on_when_the_client_is_shut_down() {
        client.say("RLOCK.ACQUIRE shut other 60000");
        client.say("RLOCK.WACQUIRE shut:rw other 60000");
        RLock lock = locks.getLock("shut");
        List<Executable> ways = List.of(lock::lock, () -> lock.lock(60, TimeUnit.SECONDS), lock::lockInterruptibly,
                () -> lock.tryLock(60, TimeUnit.SECONDS), () -> lock.lockAsync().toCompletableFuture().join(),
                locks.getFencedLock("shut")::lockAndGetToken, locks.getReadWriteLock("shut:rw").readLock()::lock,
                locks.getMultiLock(locks.getLock("shut"), locks.getLock("shut:2"))::lock);
        List<Waiter> waiters = ways.stream()
                .map(way -> Waiter.inAQueue(() -> assertThrows(Exception.class, way))).toList();
        WrappedFleet.end(locks);
        waiters.forEach(Waiter::grantedAt);
    }
}
