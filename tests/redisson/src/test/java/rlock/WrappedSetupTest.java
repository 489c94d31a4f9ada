package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;
import rlock.redisson.RedissonLocks;
import rlock.redisson.RlockMissingException;

/** What one line of a service gets: locks, or a clear no. */
class WrappedSetupTest {
    @Test
    void without_the_module_it_says_so_at_once() {
        Node bare = Node.withoutModule();
        RedissonClient redisson = Fleet.plainOn(bare.address());
        RlockMissingException e = assertThrows(RlockMissingException.class, () -> RedissonLocks.of(redisson));
        assertTrue(e.getMessage().contains("rlock module"), e.getMessage());
        RedissonLocks own = RedissonLocks.ifAvailable(redisson);
        assertFalse(own.isNative());
        assertThrows(RlockMissingException.class, own::check);
        assertSame(redisson, own.getRedisson());
        assertEquals(redisson.getLock("own").getClass(), own.getLock("own").getClass());
        own.run("own", () -> assertTrue(redisson.getLock("own").isHeldByCurrentThread()));
        assertFalse(redisson.getLock("own").isLocked());
        assertThrows(UnsupportedOperationException.class, () -> own.getPermits("own", 1));
        Fleet.end(redisson);
        bare.stop();
    }

    @Test
    void a_user_without_the_right_to_the_commands_gets_the_servers_words() {
        try (Native client = Node.shared().client()) {
            client.say("ACL SETUSER guest on >secret ~* &* +@all -rlock.cancel");
        }
        RedissonClient redisson = Fleet.plainWith(config -> config.useSingleServer().setUsername("guest")
                .setPassword("secret").setAddress(Node.shared().address()));
        RedisException e = assertThrows(RedisException.class, () -> RedissonLocks.of(redisson));
        assertTrue(e.getMessage().startsWith("NOPERM"), e.getMessage());
        assertThrows(RedisException.class, () -> RedissonLocks.ifAvailable(redisson), "that is no missing module");
        Fleet.end(redisson);
    }

    @Test
    void a_client_has_one_watchdog_however_often_its_locks_are_asked_for() {
        RedissonClient redisson = Fleet.plainOn(Node.shared().address());
        RedissonLocks locks = RedissonLocks.of(redisson);
        assertSame(locks, RedissonLocks.of(redisson));
        assertSame(locks, RedissonLocks.ifAvailable(redisson));
        assertSame(redisson, locks.getRedisson());
        assertTrue(locks.isNative());
        locks.check();
        RedissonLocks fair = RedissonLocks.of(redisson, RedissonLocks.Options.defaults().fairIsNative());
        assertNotSame(locks, fair);
        assertSame(fair, RedissonLocks.of(redisson, RedissonLocks.Options.defaults().fairIsNative()));
        locks.getLock("one").lock();
        assertFalse(fair.remaining(fair.getLock("one")).isZero(), "they know of each other's holds");
        fair.getLock("one").unlock();
        Fleet.end(redisson);
    }

    @Test
    void a_server_that_does_not_answer_holds_up_no_other_client() {
        Node frozen = Node.start();
        RedissonClient slow = Fleet.plainOn(frozen.address());
        frozen.freeze();
        Waiter waiting = Waiter.start(() -> RedissonLocks.of(slow));
        RedissonClient quick = Fleet.plainOn(Node.shared().address());
        assertTrue(RedissonLocks.of(quick).isNative());
        assertTrue(waiting.isWaiting());
        frozen.thaw();
        waiting.grantedAt();
        Fleet.end(quick);
        Fleet.end(slow);
        frozen.stop();
    }

    @Test
    void only_what_redisson_made_can_be_wrapped() {
        RedissonClient other = (RedissonClient) java.lang.reflect.Proxy.newProxyInstance(
                RedissonClient.class.getClassLoader(), new Class<?>[] {RedissonClient.class},
                (self, method, arguments) -> method.getName().equals("hashCode") ? 1 : null);
        assertThrows(IllegalArgumentException.class, () -> RedissonLocks.of(other));
        assertFalse(RedissonLocks.ifAvailable(other).isNative());
        assertThrows(NullPointerException.class, () -> RedissonLocks.of(null));
    }

    /** One connection is polled, one is for requests of the waits; all others are those of Redisson's pool. */
    @Test
    void two_hundred_waits_take_two_connections() {
        int pool = 4;
        RedissonLocks locks = WrappedFleet.with(config -> config.useSingleServer().setAddress(Node.shared().address())
                .setClientName("crowd").setConnectionMinimumIdleSize(pool).setConnectionPoolSize(pool)
                .setSubscriptionConnectionMinimumIdleSize(0));
        try (Native client = Node.shared().client()) {
            client.say("RLOCK.ACQUIRE crowd other 60000");
            Waiter[] waiters = new Waiter[200];
            for (int i = 0; i < waiters.length; i++) {
                waiters[i] = Waiter.start(() -> {
                    locks.getLock("crowd").lock();
                    locks.getLock("crowd").unlock();
                });
            }
            Patience.until("all wait", () -> Node.tickets() >= waiters.length);
            assertTrue(connections(client) <= pool + 2, "connections: " + connections(client));
            client.say("RLOCK.RELEASE crowd other");
            for (Waiter waiter : waiters) {
                waiter.grantedAt();
            }
        }
        WrappedFleet.end(locks);
    }

    /** A session and its connections end after a while without waits; the connections of locks that are being taken do not. */
    @Test
    void the_end_of_an_idle_session_disturbs_no_lock() {
        Node node = Node.start();
        RedissonLocks locks = WrappedFleet.with(config -> config.setLockWatchdogTimeout(Fleet.LONG_MS).useSingleServer()
                .setAddress(node.address()).setTimeout((int) Patience.LIMIT.toMillis()));
        Native client = node.client();
        client.say("RLOCK.ACQUIRE calm other 60000");
        Waiter waiter = Waiter.java(locks.getLock("calm"));
        client.say("RLOCK.RELEASE calm other");
        waiter.grantedAt();
        AtomicBoolean isOver = new AtomicBoolean();
        try (Crew crew = new Crew()) {
            for (int i = 0; i < 64; i++) {
                RLock lock = locks.getLock("calm:" + i);
                crew.start(() -> {
                    while (!isOver.get()) {
                        lock.lock();
                        lock.unlock();
                    }
                });
            }
            Patience.until("the session has ended", () -> ("" + client.say("INFO rlock")).contains("sessions:0\r"));
            isOver.set(true);
            crew.finish();
        }
        client.close();
        WrappedFleet.end(locks);
        node.stop();
    }

    private static long connections(Native client) {
        return ("" + client.say("CLIENT LIST")).lines().filter(line -> line.contains(" name=crowd ")).count();
    }
}
