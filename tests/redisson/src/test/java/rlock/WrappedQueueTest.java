package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import rlock.redisson.RedissonLocks;

/** Threads of Java stand in the server's queue like everybody else: what Redisson's own cannot have. */
class WrappedQueueTest {
    private final RedissonLocks locks = WrappedFleet.shared();
    private final Native client = Node.shared().client();

    @AfterEach
    void disconnect() {
        client.close();
    }

    @Test
    void native_clients_and_java_threads_are_served_in_their_order() {
        RLock lock = locks.getLock("order");
        List<Integer> order = Collections.synchronizedList(new ArrayList<>());
        assertNull(client.say("RLOCK.ACQUIRE order first 60000"));
        List<Waiter> waiters = new ArrayList<>();
        for (int i = 0; i < 8; i += 2) {
            int mine = i;
            waiters.add(Waiter.inAQueue(() -> {
                lock.lock();
                order.add(mine);
                lock.unlock();
            }));
            String name = "native-" + i;
            long before = Waiter.waiting(client);
            waiters.add(Waiter.start(() -> {
                try (Native own = Node.shared().client()) {
                    assertNull(own.say("RLOCK.ACQUIRE order " + name + " 60000 WAIT 0"));
                    order.add(mine + 1);
                    own.say("RLOCK.RELEASE order " + name);
                }
            }));
            Patience.until("it waits", () -> Waiter.waiting(client) > before);
        }
        client.say("RLOCK.RELEASE order first");
        waiters.forEach(Waiter::grantedAt);
        assertEquals(List.of(0, 1, 2, 3, 4, 5, 6, 7), order);
    }

    /** Redisson's own sleeps until the lease would have ended. */
    @Test
    void a_deleted_lock_lets_java_in() {
        assertNull(client.say("RLOCK.ACQUIRE deleted other 60000"));
        Waiter waiter = Waiter.java(locks.getLock("deleted"));
        client.say("DEL deleted");
        waiter.grantedAt();
    }

    /** Redisson's own readers are told by nobody. */
    @Test
    void a_writer_that_steps_down_to_its_read_lets_java_readers_in() {
        RReadWriteLock lock = locks.getReadWriteLock("down");
        lock.writeLock().lock();
        lock.readLock().lock();
        Waiter reader = Waiter.java(lock.readLock());
        lock.writeLock().unlock();
        reader.grantedAt();
        lock.readLock().unlock();
    }

    @Test
    void a_writer_is_not_kept_out_by_readers_who_come_and_go() {
        RReadWriteLock lock = locks.getReadWriteLock("fair");
        lock.readLock().lock();
        Waiter writer = Waiter.java(lock.writeLock());
        Waiter reader = Waiter.java(lock.readLock());
        assertTrue(writer.isWaiting() && reader.isWaiting(), "a reader who comes later waits behind the writer");
        lock.readLock().unlock();
        writer.grantedAt();
        reader.grantedAt();
    }

    /** A user who may not renew shows it: a thread that had to renew first would be refused. */
    @Test
    void what_is_granted_after_a_wait_is_the_callers_without_another_request() {
        client.say("ACL SETUSER begins on >secret ~* &* +@all -rlock.renew");
        RedissonLocks begins = WrappedFleet.with(config -> config.setLockWatchdogTimeout(Fleet.LONG_MS).useSingleServer()
                .setUsername("begins").setPassword("secret").setAddress(Node.shared().address()));
        RLock lock = begins.getLock("begins");
        List<Runnable> ways = List.of(lock::lock, () -> lock.lock(Fleet.LONG_MS, MILLISECONDS));
        for (Runnable way : ways) {
            assertNull(client.say("RLOCK.ACQUIRE begins other 60000"));
            Waiter waiter = Waiter.inAQueue(way);
            assertEquals(1L, client.say("RLOCK.RELEASE begins other"));
            waiter.grantedAt();
            lock.forceUnlock();
        }
        WrappedFleet.end(begins);
    }

    /** The lease of a wait is short; the watchdog makes it whole beside the work. */
    @Test
    void what_is_held_after_a_wait_is_renewed_soon() {
        RedissonLocks patient = WrappedFleet.with(config ->
                config.setLockWatchdogTimeout(Fleet.LONG_MS).useSingleServer().setAddress(Node.shared().address()));
        assertNull(client.say("RLOCK.ACQUIRE soon other 60000"));
        Waiter waiter = Waiter.inAQueue(patient.getLock("soon")::lock);
        assertEquals(1L, client.say("RLOCK.RELEASE soon other"));
        waiter.grantedAt();
        Patience.until("its lease is whole", () -> client.number("PTTL soon") > Fleet.LONG_MS / 2);
        patient.getLock("soon").forceUnlock();
        WrappedFleet.end(patient);
    }

    /** Where others wait, a request goes to the queue at once, with a short lease: not that of who has the lock. */
    @Test
    void who_has_the_lock_and_enters_again_keeps_its_lease() {
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

    /** A lease of its own is asked for whole, since nobody renews it. */
    @Test
    void after_a_wait_a_lease_of_its_own_is_whole() {
        assertNull(client.say("RLOCK.ACQUIRE whole other 60000"));
        Waiter waiter = Waiter.javaToStay(locks.getLock("whole"));
        assertEquals(1L, client.say("RLOCK.RELEASE whole other"));
        waiter.grantedAt();
        assertTrue(client.number("PTTL whole") > Fleet.LONG_MS / 2);
        locks.getLock("whole").forceUnlock();
    }

    @Test
    void a_connection_that_breaks_does_not_cost_the_place_in_the_queue() {
        assertNull(client.say("RLOCK.ACQUIRE place other 60000"));
        Waiter first = Waiter.java(locks.getLock("place"));
        Waiter second = Waiter.rlock(Node.shared(), "RLOCK.ACQUIRE place second 60000 WAIT 0");
        try (Native operator = Node.shared().client()) {
            for (String line : ("" + operator.say("CLIENT LIST")).split("\n")) {
                if (line.contains("cmd=rlock.events")) {
                    operator.say("CLIENT KILL ID " + line.replaceAll("id=(\\d+) .*", "$1").trim());
                }
            }
        }
        Patience.until("it is polled again", () -> ("" + client.say("INFO rlock")).contains("sessions_unattended:0"));
        client.say("RLOCK.RELEASE place other");
        first.grantedAt();
        second.grantedAt();
        client.say("RLOCK.RELEASE place second");
    }

    @Test
    void many_threads_and_two_processes_lose_no_wait() {
        RedissonLocks another = WrappedFleet.on(Node.shared().address());
        int[] sum = {0};
        try (Crew crew = new Crew()) {
            for (int i = 0; i < 40; i++) {
                RLock lock = (i % 2 == 0 ? locks : another).getLock("many");
                crew.start(() -> {
                    for (int round = 0; round < 25; round++) {
                        if (round % 5 == 4 && !lock.tryLock(20_000, 60_000, MILLISECONDS)) {
                            throw new AssertionError("not in time");
                        } else if (round % 5 != 4) {
                            lock.lock();
                        }
                        int before = sum[0];
                        Thread.yield();
                        sum[0] = before + 1;
                        lock.unlock();
                    }
                });
            }
            crew.finish();
        }
        assertEquals(1_000, sum[0]);
        assertEquals(0L, client.say("EXISTS many"));
        WrappedFleet.end(another);
    }
}
