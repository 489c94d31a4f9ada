package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.reflect.Method;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import javax.sql.DataSource;
import kotlin.coroutines.Continuation;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.redisson.spring.starter.RedissonAutoConfigurationCustomizer;
import org.springframework.aop.PointcutAdvisor;
import org.springframework.beans.factory.BeanCreationException;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.Ordered;
import org.springframework.http.ResponseEntity;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.transaction.annotation.EnableTransactionManagement;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.support.DefaultTransactionStatus;
import org.springframework.web.context.request.async.DeferredResult;
import org.springframework.web.servlet.mvc.method.annotation.SseEmitter;
import org.springframework.web.servlet.mvc.method.annotation.StreamingResponseBody;
import reactor.core.publisher.Flux;
import rlock.redisson.LockBusyException;
import rlock.redisson.LockLostException;
import rlock.redisson.RedissonLocks;
import rlock.spring.Locked;

class SpringLockedTest {
    private static final AtomicInteger names = new AtomicInteger();

    @AutoClose
    private static final SpringApps shared = new SpringApps();

    private static ConfigurableApplicationContext usual;

    @AutoClose
    private final SpringApps apps = new SpringApps();

    private final String order = "order-" + names.incrementAndGet();

    /** Commits only when the test says so. */
    static final class Commits extends DataSourceTransactionManager {
        private static final long serialVersionUID = 1;

        final transient AtomicInteger begun = new AtomicInteger();
        transient volatile CountDownLatch goOn = new CountDownLatch(0);

        Commits(DataSource database) {
            super(database);
            new JdbcTemplate(database).execute("create table orders (name varchar(40))");
        }

        @Override
        protected void doCommit(DefaultTransactionStatus status) {
            begun.incrementAndGet();
            try {
                goOn.await();
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
            super.doCommit(status);
        }
    }

    /** The common mistake: the transaction begins outside of the lock, and so ends after it. */
    @Configuration(proxyBeanMethods = false)
    @EnableTransactionManagement(order = Ordered.HIGHEST_PRECEDENCE)
    static class TransactionsOutside {
    }

    /** A loss is noticed at the next renewal, a third of this later. */
    static class QuickRenewals implements RedissonAutoConfigurationCustomizer {
        @Override
        public void customize(Config configuration) {
            configuration.setLockWatchdogTimeout(3_000);
        }
    }

    static class Orders {
        private final JdbcTemplate database;
        private final RedissonLocks locks;

        Orders(JdbcTemplate database, RedissonLocks locks) {
            this.database = database;
            this.locks = locks;
        }

        /** Returns how many orders there were before. */
        @Locked("orders:#{#order}")
        @Transactional
        public int add(String order) {
            return addUnlocked(order);
        }

        @Locked(value = "orders:#{#order}", insideTransaction = true)
        @Transactional
        public int addInside(String order) {
            return addUnlocked(order);
        }

        private int addUnlocked(String order) {
            int before = count(order);
            database.update("insert into orders values (?)", order);
            return before;
        }

        int count(String order) {
            return database.queryForObject("select count(*) from orders where name = ?", Integer.class, order);
        }

        @Locked("orders:#{#order}")
        @Transactional
        public void addAndLose(String order) {
            addUnlocked(order);
            locks.getRedisson().getKeys().delete("orders:" + order);
            Patience.until("the loss is reported", Thread::interrupted);
        }

        @Locked(value = "orders:#{#order.name()}-${rlock.default-wait}", waitTime = "0s")
        public String named(Order order) {
            return locks.getLock("orders:" + order.name() + "-7s").isHeldByCurrentThread() ? "held" : "not held";
        }

        @Locked("orders:#{#p0}")
        public void maybe(String order) {
        }

        @Locked(value = "orders:#{#order}", kind = Locked.Kind.READ)
        public void read(String order, Runnable work) {
            work.run();
        }

        @Locked(value = "orders:#{#order}", kind = Locked.Kind.WRITE, waitTime = "0s")
        public void write(String order) {
        }

        @Locked("orders:#{#order}")
        public void refuse(String order) throws IOException {
            throw new IOException(order);
        }

        @Locked("orders:#{#order}")
        public void waitFor(String order) {
        }
    }

    record Order(String name) {
    }

    static class Desk {
        private final Orders orders;

        Desk(Orders orders) {
            this.orders = orders;
        }

        @Transactional
        public void addBoth(String order) {
            orders.add(order);
        }
    }

    static class Private {
        @Locked("a")
        private void hidden() {
        }

        public void call() {
            hidden();
        }
    }

    /** Methods that return before their work is done. */
    interface Later {
        @Locked("a")
        CompletableFuture<String> future();

        @Locked("a")
        Callable<String> call();

        @Locked("a")
        DeferredResult<String> result();

        @Locked("a")
        SseEmitter emitter();

        @Locked("a")
        ResponseEntity<StreamingResponseBody> body();

        @Locked("a")
        Flux<String> publisher();

        @Locked("a")
        Object suspended(Continuation<? super String> continuation);
    }

    static class Hidden {
        @Locked("a")
        public Object later() {
            return (Callable<String>) () -> "";
        }

        @Locked("a")
        public <T extends Comparable<T>> List<T> now() {
            return List.of();
        }
    }

    /** Public for a class loader that is not the tests'. */
    public interface Greeting {
        @Locked("greeting:#{#p0}")
        boolean isHeld(String name);
    }

    @Configuration(proxyBeanMethods = false)
    static class ByInterface {
        @Bean
        Greeting greeting(RedissonLocks locks) {
            return name -> locks.getLock("greeting:" + name).isHeldByCurrentThread();
        }
    }

    @BeforeAll
    static void startTheUsual() {
        usual = start(shared, Commits.class, Orders.class, Desk.class);
    }

    private ConfigurableApplicationContext app = usual;
    private Orders orders = usual.getBean(Orders.class);

    private static ConfigurableApplicationContext start(SpringApps apps, Class<?>... beans) {
        return apps.start(Node.shared(), Map.of("rlock.default-wait", "7s"), beans);
    }

    private void startWith(Class<?> more) {
        app = start(apps, Commits.class, Orders.class, more);
        orders = app.getBean(Orders.class);
    }

    private Commits commitsThatWait() {
        Commits commits = app.getBean(Commits.class);
        commits.begun.set(0);
        commits.goOn = new CountDownLatch(1);
        return commits;
    }

    @Test
    void the_next_holder_sees_what_the_last_one_committed() throws Exception {
        Commits commits = commitsThatWait();
        var first = CompletableFuture.supplyAsync(() -> orders.add(order));
        Patience.until("the first is about to commit", () -> commits.begun.get() == 1);
        var second = CompletableFuture.supplyAsync(() -> orders.add(order));
        untilOneWaits("orders:" + order);
        commits.goOn.countDown();
        assertEquals(0, first.get());
        assertEquals(1, second.get());
    }

    @Test
    void a_transaction_around_the_lock_is_refused() {
        startWith(TransactionsOutside.class);
        var refused = assertThrows(IllegalStateException.class, () -> orders.add(order));
        assertTrue(refused.getMessage().startsWith("a transaction is active already"), refused.getMessage());
        assertEquals(0, orders.count(order));
    }

    @Test
    void a_callers_transaction_is_refused() {
        assertThrows(IllegalStateException.class, () -> app.getBean(Desk.class).addBoth(order));
        assertEquals(0, orders.count(order));
    }

    /** Why it is refused: the counterpart of the first test, with nothing else changed. */
    @Test
    void inside_of_the_transaction_the_next_holder_misses_what_is_not_committed_yet() throws Exception {
        startWith(TransactionsOutside.class);
        Commits commits = commitsThatWait();
        var first = CompletableFuture.supplyAsync(() -> orders.addInside(order));
        Patience.until("the first is about to commit", () -> commits.begun.get() == 1);
        var second = CompletableFuture.supplyAsync(() -> orders.addInside(order));
        Patience.until("the second is too", () -> commits.begun.get() == 2);
        commits.goOn.countDown();
        assertEquals(0, first.get());
        assertEquals(0, second.get());
    }

    @Test
    void nothing_is_committed_once_the_lock_is_lost() {
        startWith(QuickRenewals.class);
        var lost = assertThrows(LockLostException.class, () -> orders.addAndLose(order));
        assertEquals("orders:" + order, lost.getLost().getName());
        assertTrue(lost.getSuppressed()[0].getMessage().startsWith("not committed"), "" + lost.getSuppressed()[0]);
        assertEquals(0, orders.count(order));
    }

    @Test
    void a_name_is_made_of_arguments_and_properties() {
        assertEquals("held", orders.named(new Order(order)));
        RedissonClient redisson = app.getBean(RedissonClient.class);
        assertFalse(redisson.getLock("orders:" + order + "-7s").isLocked());
    }

    @Test
    void no_name_is_refused() {
        var refused = assertThrows(IllegalArgumentException.class, () -> orders.maybe(null));
        assertTrue(refused.getMessage().endsWith("#p0 is null"), refused.getMessage());
        assertThrows(IllegalArgumentException.class, () -> orders.maybe(""));
    }

    @Test
    void a_busy_lock_is_waited_for_as_long_as_the_method_says() throws Exception {
        try (Native client = Node.shared().client()) {
            client.say("RLOCK.ACQUIRE orders:" + order + "-7s somebody 60000");
            assertThrows(LockBusyException.class, () -> orders.named(new Order(order)));
        }
    }

    @Test
    void readers_come_in_together_and_keep_writers_out() {
        orders.read(order, () -> {
            CompletableFuture.runAsync(() -> orders.read(order, () -> { })).join();
            CompletableFuture.runAsync(() -> assertThrows(LockBusyException.class, () -> orders.write(order))).join();
        });
        orders.write(order);
    }

    @Test
    void what_the_method_throws_is_thrown() {
        assertThrows(IOException.class, () -> orders.refuse(order));
    }

    @Test
    void an_interrupted_wait_throws_an_unchecked_exception() throws Exception {
        try (Native client = Node.shared().client()) {
            client.say("RLOCK.ACQUIRE orders:" + order + " somebody 60000");
            var seen = new CompletableFuture<Boolean>();
            Thread waits = new Thread(() -> {
                assertThrows(IllegalStateException.class, () -> orders.waitFor(order));
                seen.complete(Thread.currentThread().isInterrupted());
            });
            waits.start();
            untilOneWaits("orders:" + order);
            waits.interrupt();
            assertTrue(seen.get());
        }
    }

    @Test
    void what_no_proxy_can_lock_is_refused_at_once() {
        var refused = assertThrows(BeanCreationException.class, () -> apps.start(Node.shared(), Map.of(), Private.class));
        assertTrue(refused.getRootCause().getMessage().startsWith("@Locked does nothing"), "" + refused.getRootCause());
    }

    static List<Method> later() {
        return List.of(Later.class.getDeclaredMethods());
    }

    /** Also at the start, when Spring asks whether a bean needs a proxy. */
    @ParameterizedTest
    @MethodSource("later")
    void what_returns_before_its_work_is_done_is_refused(Method method) {
        var advised = usual.getBean("rlockLockedAdvisor", PointcutAdvisor.class).getPointcut().getMethodMatcher();
        var refused = assertThrows(IllegalStateException.class, () -> advised.matches(method, Later.class));
        assertTrue(refused.getMessage().startsWith("@Locked cannot hold a lock"), refused.getMessage());
    }

    @Test
    void what_only_the_call_shows_to_be_later_is_refused_then() {
        Hidden hidden = apps.start(Node.shared(), Map.of(), Hidden.class).getBean(Hidden.class);
        assertEquals(List.of(), hidden.<String>now());
        var refused = assertThrows(IllegalStateException.class, hidden::later);
        assertTrue(refused.getMessage().contains("whose work is not done"), refused.getMessage());
    }

    /** Also if Spring Boot makes no proxies. */
    @ParameterizedTest
    @ValueSource(strings = {"proxy-target-class=false", "proxy-target-class=true", "auto=false"})
    void an_interfaces_methods_are_locked(String aop) {
        String[] property = aop.split("=");
        app = apps.start(Node.shared(), Map.of("spring.aop." + property[0], property[1]), ByInterface.class);
        assertTrue(app.getBean(Greeting.class).isHeld(order));
    }

    private static void untilOneWaits(String key) {
        try (Native client = Node.shared().client()) {
            Patience.until("one waits for " + key, () -> ("" + client.say("RLOCK.INSPECT " + key)).contains("waiter-count, 1,"));
        }
    }
}
