package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.client.RedisException;
import org.redisson.config.Config;
import rlock.redisson.HeldLock;
import rlock.redisson.InMemoryLocks;
import rlock.redisson.LockBusyException;
import rlock.redisson.LockLostException;
import rlock.redisson.LossReason;
import rlock.redisson.LostLock;
import rlock.redisson.RedissonLocks;

/** A hold that passes from one process to another, each with a client of its own here. */
class WrappedHandoverTest {
    private final RedissonLocks former = WrappedFleet.on(Node.shared().address());
    private final RedissonLocks next = WrappedFleet.on(Node.shared().address());

    @AutoClose
    private final Native client = Node.shared().client();

    @AfterEach
    void disconnect() {
        WrappedFleet.end(former);
        WrappedFleet.end(next);
    }

    private void outlivesALease(String key) {
        long end = client.number("PEXPIRETIME " + key);
        Patience.until("the lease is renewed", () -> client.number("PEXPIRETIME " + key) > end);
    }

    private static LossReason reason(CompletableFuture<LostLock> lost) throws Exception {
        return lost.get(Patience.LIMIT.toSeconds(), TimeUnit.SECONDS).getReason();
    }

    @Test
    void a_hold_goes_on_in_the_process_that_adopts_it() throws Exception {
        List<LostLock> losses = new CopyOnWriteArrayList<>();
        former.onLost(losses::add);
        HeldLock held = former.hold(former.getLock("passed"));
        CompletableFuture<LostLock> lost = held.lost();
        String text = held.detach();
        Patience.until("no loss is reported any more", lost::isCancelled);
        assertTrue(held.remaining().isZero());
        try (HeldLock adopted = next.adopt(text)) {
            outlivesALease("passed");
            outlivesALease("passed");
            assertFalse(adopted.remaining().isZero());
            held.close();
            assertThrows(IllegalMonitorStateException.class, held::unlock);
            assertThrows(IllegalMonitorStateException.class, held::detach);
            assertThrows(LockBusyException.class, () -> former.hold(former.getLock("passed"), Duration.ZERO));
            Waiter waiter = Waiter.rlock(Node.shared(), "RLOCK.ACQUIRE passed other 60000 WAIT 0");
            adopted.unlock();
            waiter.grantedAt();
        }
        assertEquals(List.of(), losses);
    }

    /** It would be taken for a re-entry, since the holder of a thread has the same name each time. */
    @Test
    void the_thread_that_detached_a_hold_does_not_enter_it_again() throws Exception {
        RLock lock = former.getLock("again");
        String text = former.hold(lock).detach();
        assertFalse(lock.tryLock());
        HeldLock adopted = former.adopt(text);
        assertFalse(lock.tryLock());
        adopted.unlock();
        assertTrue(lock.tryLock());
        lock.unlock();
    }

    @Test
    void the_text_is_that_of_all_languages() throws Exception {
        String id = former.getRedisson().getId();
        assertTrue(former.hold(former.getLock("text")).detach().matches("rlock1/plain/1500/0/-/" + id + ":[0-9]+/text"));
        HeldLock fenced = former.hold(former.getFencedLock("text:fenced"));
        long token = fenced.getTokens().get(0);
        assertTrue(fenced.detach().matches("rlock1/plain/1500/0/" + token + "/[^/]+/text:fenced"));
        String permit = former.hold(former.getPermits("text:permit", 4)).detach();
        assertTrue(permit.matches("rlock1/permit/1500/4/1/[^/]+/text:permit"), permit);
        String several = former.hold(former.getMultiLock(former.getLock("text 1"), former.getLock("text{2}é"))).detach();
        assertTrue(several.matches("rlock1/several/1500/0/-/[^/]+/text%201/text%7B2%7D%C3%A9"), several);
        for (String text : List.of("", "rlock1", permit.replace("rlock1", "rlock2"), permit.replace("/4/", "/0/"),
                permit.replace("permit/", "several/"), permit + "/other", permit + " ", permit + "%2f", permit + "%FF",
                several.replace("/-/", "/x/"), several.replace("/-/", "//"), permit.replace("/1500/", "/0/"),
                permit.replace("/1500/", "/+1/"), several.replace("several", "plain"), several.replace("several", "SEVERAL"),
                several + "/text%201", several + "/")) {
            String why = assertThrows(IllegalArgumentException.class, () -> next.adopt(text), text).getMessage();
            assertFalse(why.contains(id), why);
        }
    }

    @Test
    void every_kind_can_be_handed_on() throws Exception {
        RLock several = former.getMultiLock(former.getLock("kind:1"), former.getLock("kind:2"));
        for (HeldLock held : List.of(former.hold(former.getReadWriteLock("kind:read").readLock()),
                former.hold(former.getReadWriteLock("kind:write").writeLock()), former.hold(several),
                former.hold(former.getPermits("kind:permit", 1)), former.hold(former.getFencedLock("kind:fenced")))) {
            List<Long> tokens = held.getTokens();
            HeldLock adopted = next.adopt(held.detach());
            assertEquals(tokens, adopted.getTokens());
            for (String key : adopted.getName().split(",")) {
                outlivesALease(key);
            }
            adopted.unlock();
            for (String key : adopted.getName().split(",")) {
                assertEquals(0, client.number("EXISTS " + key));
            }
        }
    }

    /** One that another language has acquired twice, with a lease that is shorter than this client's. */
    @Test
    void what_another_language_detached_is_kept_with_its_lease_and_released_as_a_whole() {
        client.say("RLOCK.ACQUIRE foreign{x} h\u00c3\u00a9/1 600");
        client.say("RLOCK.ACQUIRE foreign{x} h\u00c3\u00a9/1 600");
        HeldLock adopted = next.adopt("rlock1/plain/600/0/7/h%C3%A9%2F1/foreign%7Bx%7D");
        assertEquals(List.of(7L), adopted.getTokens());
        for (int i = 0; i < 4; i++) {
            outlivesALease("foreign{x}");
            assertTrue(client.number("PTTL foreign{x}") <= 600);
        }
        assertTrue(adopted.remaining().toMillis() <= 600);
        adopted.unlock();
        assertEquals(0, client.number("EXISTS foreign{x}"));
    }

    @Test
    void the_loss_of_what_was_adopted_is_reported_and_stops_the_work() throws Exception {
        HeldLock adopted = next.adopt(former.hold(former.getLock("stolen")).detach());
        CompletableFuture<LostLock> lost = adopted.lost();
        LockLostException error = assertThrows(LockLostException.class, () -> adopted.call(() -> {
            client.say("RLOCK.BREAK stolen");
            Thread.sleep(Patience.LIMIT.toMillis());
            return null;
        }));
        assertEquals(LossReason.NOT_HELD, error.getReason());
        assertEquals(LossReason.NOT_HELD, reason(lost));
        assertThrows(IllegalMonitorStateException.class, adopted::unlock);
    }

    @Test
    void what_is_adopted_twice_is_held_twice_until_one_releases_it() throws Exception {
        String text = former.hold(former.getLock("twice")).detach();
        for (RedissonLocks same : List.of(former, next)) {
            HeldLock first = next.adopt(text);
            HeldLock second = same.adopt(text);
            CompletableFuture<LostLock> lost = first.lost();
            text = second.detach();
            second = same.adopt(text);
            second.unlock();
            assertEquals(LossReason.NOT_HELD, reason(lost));
            assertThrows(IllegalMonitorStateException.class, first::unlock);
            text = former.hold(former.getLock("twice")).detach();
        }
        next.adopt(text).unlock();
    }

    @Test
    void a_text_whose_lease_has_ended_or_whose_key_is_something_else_is_a_loss() throws Exception {
        String text = former.hold(former.getLock("late")).detach(Duration.ofMillis(1));
        Patience.until("the lease has ended", () -> client.number("EXISTS late") == 0);
        assertEquals(LossReason.NOT_HELD,
                assertThrows(LockLostException.class, () -> next.adopt(text)).getReason());
        client.say("SET late something");
        assertEquals(LossReason.OVERWRITTEN,
                assertThrows(LockLostException.class, () -> next.adopt(text)).getReason());
        client.say("DEL late");
        RLock both = former.getMultiLock(former.getLock("late:1"), former.getLock("late:2"));
        String several = former.hold(both).detach();
        client.say("DEL late:2");
        assertEquals("late:2",
                assertThrows(LockLostException.class, () -> next.adopt(several)).getLost().getName());
    }

    @Test
    void a_hold_that_is_lost_cannot_be_detached() throws Exception {
        HeldLock held = former.hold(former.getLock("gone"));
        CompletableFuture<LostLock> lost = held.lost();
        client.say("DEL gone");
        assertThrows(IllegalArgumentException.class, () -> held.detach(Duration.ZERO));
        assertEquals(LossReason.NOT_HELD, assertThrows(LockLostException.class, held::detach).getReason());
        assertEquals(LossReason.NOT_HELD, reason(lost));
        assertEquals(LossReason.NOT_HELD, assertThrows(LockLostException.class, held::detach).getReason());
        assertEquals(LossReason.NOT_HELD, assertThrows(LockLostException.class, held::close).getReason());
    }

    /** No renewal cuts it down to the watchdog's lease. */
    @Test
    void the_time_to_adopt_may_be_longer_than_the_lease() throws Exception {
        HeldLock held = former.hold(former.getLock("long"));
        outlivesALease("long");
        String text = held.detach(Duration.ofMinutes(1));
        assertTrue(client.number("PTTL long") > 50_000);
        WrappedFleet.end(former);
        HeldLock adopted = next.adopt(text);
        assertTrue(client.number("PTTL long") <= Fleet.WATCHDOG_MS);
        adopted.unlock();
    }

    @Test
    void a_hold_goes_on_if_the_server_does_not_answer_its_detach() throws Exception {
        Node node = Node.start();
        RedissonLocks far = WrappedFleet.with(config -> config.setLockWatchdogTimeout(10_000).useSingleServer()
                .setAddress(node.address()).setRetryAttempts(0));
        try (Native other = node.client()) {
            HeldLock held = far.hold(far.getLock("frozen"));
            node.freeze();
            assertThrows(RedisException.class, held::detach);
            assertThrows(RedisException.class, () -> far.adopt("rlock1/plain/1500/0/-/nobody/frozen"));
            assertFalse(held.remaining().isZero());
            node.thaw();
            long end = other.number("PEXPIRETIME frozen");
            Patience.until("the watchdog renews it", () -> other.number("PEXPIRETIME frozen") > end);
            far.adopt(held.detach()).unlock();
            assertEquals(0, other.number("EXISTS frozen"));
        } finally {
            WrappedFleet.end(far);
            node.stop();
        }
    }

    /** It prints the text of a hold, and waits to be killed. */
    static final class Former {
        private Former() {
        }

        public static void main(String[] arguments) throws Exception {
            Config config = new Config();
            config.useSingleServer().setAddress(arguments[0]);
            RedissonLocks locks = RedissonLocks.of(Redisson.create(config));
            System.out.println(locks.hold(locks.getLock(arguments[1])).detach());
        }
    }

    @Test
    void a_hold_outlives_the_process_that_detached_it() throws Exception {
        Process process = new ProcessBuilder(ProcessHandle.current().info().command().orElseThrow(), "-cp",
                System.getProperty("java.class.path"), Former.class.getName(), Node.shared().address(), "orphan")
                        .redirectError(ProcessBuilder.Redirect.DISCARD).start();
        String text = new BufferedReader(new InputStreamReader(process.getInputStream())).readLine();
        process.destroyForcibly().waitFor();
        HeldLock adopted = next.adopt(text);
        outlivesALease("orphan");
        adopted.unlock();
        assertEquals(0, client.number("EXISTS orphan"));
    }

    @Test
    void holds_in_memory_are_handed_on_as_well() throws Exception {
        InMemoryLocks locks = new InMemoryLocks();
        HeldLock held = locks.hold(locks.getFencedLock("a"));
        CompletableFuture<LostLock> lost = held.lost();
        String text = held.detach();
        assertTrue(lost.isCancelled());
        assertThrows(LockBusyException.class, () -> locks.hold(locks.getLock("a"), Duration.ofMillis(1)));
        HeldLock adopted = locks.adopt(text);
        assertEquals(held.getTokens(), adopted.getTokens());
        assertThrows(IllegalMonitorStateException.class, held::unlock);
        held.close();
        lost = adopted.lost();
        locks.lose("a");
        assertEquals(LossReason.NOT_HELD, reason(lost));
        assertThrows(LockLostException.class, adopted::detach);
        assertThrows(LockLostException.class, () -> locks.adopt(text));
        try (HeldLock permit = locks.adopt(locks.hold(locks.getPermits("p", 1)).detach())) {
            assertFalse(locks.getPermits("p", 1).tryAcquire());
        }
        assertTrue(locks.getPermits("p", 1).tryAcquire());
    }
}
