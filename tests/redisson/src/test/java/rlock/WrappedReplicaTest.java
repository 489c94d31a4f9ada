package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.redisson.api.RLock;
import org.redisson.client.RedisException;
import org.redisson.command.NoSyncedSlavesException;
import org.redisson.config.Config;
import rlock.redisson.LostLock;
import rlock.redisson.RedissonLocks;

/** Locks that count only once a replica knows them, which is the default wherever there are replicas. */
class WrappedReplicaTest {
    private static final int SYNC_MS = 100;

    /** Two thirds of it are left when a renewal is due. A stall of the machine is shorter than that. */
    private static final long LEASE_MS = 2 * Fleet.WATCHDOG_MS;

    /** How late it may be, without stalls of the machine: less than a defect that lengthens a lease would add to it. */
    private static final long LATE_MS = 400;

    private final BlockingQueue<LostLock> losses = new LinkedBlockingQueue<>();
    private final List<RedissonLocks> clients = new CopyOnWriteArrayList<>();
    private Node node;
    private Node replica;
    private Native master;
    private RedissonLocks locks;

    @BeforeEach
    void start() {
        node = Node.start("--repl-diskless-sync-delay", "0");
        master = node.client();
        replica = follower();
        locks = with(config -> { });
    }

    @AfterEach
    void stop() {
        clients.forEach(WrappedFleet::end);
        master.close();
        replica.stop();
        node.stop();
    }

    private Node follower() {
        Node follower = Node.start("--replicaof", "127.0.0.1", "" + node.port());
        Patience.until("it follows", () -> ("" + master.say("INFO replication")).contains("state=online"));
        untilConfirmed();
        return follower;
    }

    /** Waits until the replica has everything that the server was asked before, and each WAIT for that has its reply. */
    private void untilConfirmed() {
        master.say("SET confirmed 1");
        assertEquals(1L, master.say("WAIT 1 20000"));
    }

    private RedissonLocks with(Consumer<Config> more) {
        RedissonLocks client = WrappedFleet.with(config -> {
            config.setLockWatchdogTimeout(LEASE_MS).setSlavesSyncTimeout(SYNC_MS).useMasterSlaveServers()
                    .setMasterAddress(node.address()).addSlaveAddress(replica.address()).setRetryAttempts(0);
            more.accept(config);
        });
        client.onLost(losses::add);
        clients.add(client);
        return client;
    }

    private long end(String key) {
        return master.number("PEXPIRETIME " + key);
    }

    private void untilRenewed(String key) {
        long end = end(key);
        Patience.until(key + " is renewed", () -> end(key) > end);
    }

    private void untilALeaseIsOver() {
        long end = System.currentTimeMillis() + LEASE_MS + LATE_MS;
        Patience.until("a lease is over", () -> System.currentTimeMillis() > end);
    }

    private LostLock loss() throws InterruptedException {
        LostLock lost = losses.poll(Patience.LIMIT.toSeconds(), TimeUnit.SECONDS);
        assertTrue(lost != null, "no loss was reported");
        return lost;
    }

    /** The loss must be reported before the last lease ends that the replica can have confirmed. */
    private LostLock lossAfter(long frozen, Stalls stalls) throws InterruptedException {
        LostLock lost = loss();
        long after = System.currentTimeMillis() - frozen;
        long allowed = LEASE_MS + LATE_MS + stalls.ms();
        assertTrue(after < allowed, "reported too late: " + after + " ms, allowed are " + allowed);
        return lost;
    }

    /** The master goes on renewing it, but a replica that becomes the master would grant it to another holder. */
    @Test
    void a_lock_that_no_replica_has_confirmed_is_lost_when_what_was_confirmed_is_over() throws Exception {
        locks.getLock("held").lock();
        untilRenewed("held");
        untilConfirmed();
        long confirmed = end("held");
        replica.freeze();
        try (Stalls stalls = new Stalls()) {
            LostLock lost = lossAfter(System.currentTimeMillis(), stalls);
            long reported = System.currentTimeMillis();
            assertTrue(reported > confirmed - LATE_MS, "reported too early: " + (confirmed - reported) + " ms");
            assertTrue(end("held") > reported, "the master has renewed it");
            assertEquals("held", lost.getName());
            assertInstanceOf(NoSyncedSlavesException.class, lost.getCause().orElseThrow());
        }
    }

    @Test
    void a_replica_that_goes_on_in_time_costs_no_lock() {
        RLock held = locks.getLock("thawed");
        held.lock();
        untilRenewed("thawed");
        untilConfirmed();
        replica.freeze();
        untilRenewed("thawed");
        // When the second renewal comes, the first one has been in vain.
        untilRenewed("thawed");
        replica.thaw();
        untilALeaseIsOver();
        assertEquals(List.of(), List.copyOf(losses));
        held.unlock();
    }

    @Test
    void a_re_entry_that_no_replica_has_lengthens_nothing() throws Exception {
        RLock held = locks.getLock("again");
        held.lock();
        untilRenewed("again");
        untilConfirmed();
        replica.freeze();
        try (Stalls stalls = new Stalls()) {
            long frozen = System.currentTimeMillis();
            untilRenewed("again");
            assertThrows(RedisException.class, held::lock);
            lossAfter(frozen, stalls);
        }
    }

    @Test
    void many_locks_are_confirmed_by_few_waits() {
        for (int i = 0; i < 200; i++) {
            locks.getLock("many:" + i).lock();
        }
        long renewals = master.calls("rlock.renew");
        long waits = master.calls("wait");
        long began = System.currentTimeMillis();
        Patience.until("each was renewed several times", () -> master.calls("rlock.renew") > renewals + 1_000);
        waits = master.calls("wait") - waits;
        long rounds = 30 * (System.currentTimeMillis() - began) / LEASE_MS;
        assertTrue(0 < waits && waits <= rounds + 1, waits + " times WAIT in the time of " + rounds);
        assertEquals(List.of(), List.copyOf(losses));
    }

    /** A lock is confirmed by as many replicas as there are; and it waits for a replica that returns. */
    @Test
    void without_a_replica_nothing_is_waited_for_until_there_is_one() {
        RLock held = locks.getLock("alone");
        held.lock();
        replica.stop();
        Patience.until("it is gone", () -> ("" + master.say("INFO replication")).contains("connected_slaves:0"));
        untilALeaseIsOver();
        long before = master.calls("wait");
        untilRenewed("alone");
        assertEquals(before, master.calls("wait"));
        replica = follower();
        long after = master.calls("wait");
        Patience.until("it is waited for", () -> master.calls("wait") > after);
        assertEquals(List.of(), List.copyOf(losses));
        held.unlock();
    }

    /** For a service that must not believe a master that is left alone. */
    @Test
    void with_min_replicas_to_write_a_lock_is_lost_when_the_last_replica_is_gone() throws Exception {
        locks.getLock("guarded").lock();
        master.say("CONFIG SET min-replicas-to-write 1");
        untilRenewed("guarded");
        long end = end("guarded");
        replica.stop();
        assertEquals("guarded", loss().getName());
        assertTrue(System.currentTimeMillis() < end + LEASE_MS, "reported too late");
    }

    @Test
    void an_unlock_is_known_to_a_replica_when_it_returns() {
        RLock lock = locks.getLock("unlocked");
        try (Native follower = replica.client()) {
            for (int i = 0; i < 100; i++) {
                lock.lock();
                long waits = master.calls("wait");
                lock.unlock();
                assertEquals(0L, follower.say("EXISTS unlocked"));
                assertEquals(waits + 1, master.calls("wait"));
            }
        }
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
    }

    /** Redisson reports this, too. */
    @Test
    void an_unlock_that_no_replica_has_fails_and_the_lock_is_free() {
        RLock lock = locks.getLock("unlocked:alone");
        lock.lock();
        lock.lock();
        replica.freeze();
        RedisException error = assertThrows(RedisException.class, lock::unlock);
        assertInstanceOf(NoSyncedSlavesException.class, error.getCause());
        assertEquals(1, lock.getHoldCount());
        assertThrows(RedisException.class, lock::unlock);
        assertEquals(0L, master.say("EXISTS unlocked:alone"));
        assertNull(master.say("RLOCK.ACQUIRE unlocked:alone other 60000"));
        untilALeaseIsOver();
        assertEquals(List.of(), List.copyOf(losses));
    }

    /** A service that has said that replicas do not matter waits for them where it did before: behind a grant. */
    @Test
    void without_the_check_neither_renewals_nor_unlocks_wait() {
        RedissonLocks unchecked = with(config -> config.setCheckLockSyncedSlaves(false));
        RLock lock = unchecked.getLock("unchecked");
        lock.lock();
        long waits = master.calls("wait");
        replica.freeze();
        untilRenewed("unchecked");
        untilALeaseIsOver();
        lock.unlock();
        assertEquals(waits, master.calls("wait"));
        assertEquals(List.of(), List.copyOf(losses));
    }
}
