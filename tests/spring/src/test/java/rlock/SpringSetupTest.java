package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.Mockito.doAnswer;
import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.when;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;
import net.javacrumbs.shedlock.core.LockProvider;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.springframework.beans.factory.BeanCreationException;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.integration.support.locks.LockRegistry;
import rlock.redisson.InMemoryLocks;
import rlock.redisson.LossReason;
import rlock.redisson.RedissonLocks;
import rlock.shedlock.RlockLockProvider;
import rlock.spring.Locked;
import rlock.spring.LockedAutoConfiguration;
import rlock.spring.RlockAutoConfiguration;
import rlock.spring.RlockLockRegistry;
import rlock.spring.RlockMetrics;
import rlock.spring.RlockUsesAutoConfiguration;

/** What the starter makes, and what it leaves alone. */
class SpringSetupTest {
    @AutoClose
    private final SpringApps apps = new SpringApps();

    @Configuration(proxyBeanMethods = false)
    static class Own {
        @Bean
        RedissonLocks own(RedissonClient redisson) {
            return RedissonLocks.ifAvailable(redisson);
        }

        @Bean
        LockProvider lockProvider() {
            return configuration -> null;
        }

        @Bean
        LockRegistry ownRegistry() {
            return key -> null;
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class Two {
        @Bean
        RedissonLocks first(RedissonClient redisson) {
            return RedissonLocks.of(redisson);
        }

        @Bean
        RedissonLocks second() {
            return new InMemoryLocks();
        }
    }

    static class Ask {
        private final RedissonLocks second;

        Ask(RedissonLocks second) {
            this.second = second;
        }

        @Locked(value = "a", locks = "second")
        public boolean isHeld() {
            return second.getLock("a").isHeldByCurrentThread();
        }
    }

    @Configuration(proxyBeanMethods = false)
    static class Hanging {
        static RedissonLocks locks;

        @Bean
        RedissonLocks hanging() {
            return locks;
        }
    }

    @Test
    void all_of_it_is_there() {
        ConfigurableApplicationContext app = apps.start(Node.shared(), Map.of());
        assertTrue(app.getBean(RedissonLocks.class).isNative());
        assertTrue(app.getBean(LockProvider.class) instanceof RlockLockProvider);
        assertTrue(app.getBean(LockRegistry.class) instanceof RlockLockRegistry);
        assertTrue(app.containsBean("rlockHealthIndicator"));
        RedissonLocks locks = app.getBean(RedissonLocks.class);
        assertFalse(locks.getFairLock("a").getClass().equals(locks.getLock("a").getClass()));
    }

    @Test
    void what_the_application_has_itself_is_left_alone() {
        ConfigurableApplicationContext app = apps.start(Node.shared(), Map.of(), Own.class);
        assertSame(app.getBean("own"), app.getBean(RedissonLocks.class));
        assertFalse(app.getBean(LockProvider.class) instanceof RlockLockProvider);
        assertFalse(app.getBean(LockRegistry.class) instanceof RlockLockRegistry);
    }

    @Test
    void properties_are_heard() {
        ConfigurableApplicationContext app = apps.start(Node.shared(), Map.of("rlock.fair-is-native", true,
                "rlock.metrics.names", true, "rlock.lock-registry.prefix", "mine:",
                "management.health.rlock.enabled", false), SimpleMeterRegistry.class);
        RedissonLocks locks = app.getBean(RedissonLocks.class);
        assertEquals(locks.getLock("a").getClass(), locks.getFairLock("a").getClass());
        assertFalse(app.containsBean("rlockHealthIndicator"));
        app.getBean(RlockLockRegistry.class).obtain("a").lock();
        assertTrue(locks.getLock("mine:a").isHeldByCurrentThread());
        app.getBean(RlockLockRegistry.class).obtain("a").unlock();
        MeterRegistry measures = app.getBean(MeterRegistry.class);
        Patience.until("it is measured", () -> measures.find("rlock.held").tag("lock", "mine:a").timer() != null);
        assertEquals(1, measures.get("rlock.wait").tags("lock", "mine:a", "outcome", "granted").timer().count());
    }

    @Test
    void what_is_measured_has_no_names_unless_asked_for() throws Exception {
        ConfigurableApplicationContext app = apps.start(Node.shared(), Map.of(), SimpleMeterRegistry.class);
        MeterRegistry measures = app.getBean(MeterRegistry.class);
        RedissonLocks locks = app.getBean(RedissonLocks.class);
        assertEquals(0, measures.get("rlock.lost").counter().count());
        locks.run("measured", () -> {
            assertFalse(CompletableFuture.supplyAsync(() -> locks.getLock("measured").tryLock()).join());
        });
        Patience.until("it is measured", () -> measures.get("rlock.held").timer().count() == 1);
        assertEquals(1, measures.get("rlock.wait").tag("outcome", "granted").timer().count());
        assertEquals(1, measures.get("rlock.wait").tag("outcome", "refused").timer().count());
        assertTrue(measures.find("rlock.wait").timers().stream().allMatch(timer -> timer.getId().getTag("lock") == null));
        app.getBean(RlockMetrics.class).close();
        locks.run("measured", () -> { });
        assertEquals(1, measures.get("rlock.held").timer().count());
    }

    @Test
    void losses_are_counted_by_their_reason() {
        ConfigurableApplicationContext app =
                apps.start(Node.shared(), Map.of(), SimpleMeterRegistry.class, SpringTestingTest.LocksInMemory.class);
        MeterRegistry measures = app.getBean(MeterRegistry.class);
        app.getBean(RedissonLocks.class).getLock("a").lock();
        app.getBean(InMemoryLocks.class).lose("a");
        for (LossReason reason : LossReason.values()) {
            double count = measures.get("rlock.lost").tag("reason", reason.word()).counter().count();
            assertEquals(reason == LossReason.NOT_HELD ? 1 : 0, count, reason.word());
        }
    }

    @Test
    void it_does_without_what_is_not_on_the_class_path() {
        Config config = new Config();
        config.useSingleServer().setAddress(Node.shared().address());
        new ApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(RlockAutoConfiguration.class, RlockUsesAutoConfiguration.class))
                .withBean(RedissonClient.class, () -> Redisson.create(config))
                .withClassLoader(new FilteredClassLoader("io.micrometer", "net.javacrumbs",
                        "org.springframework.integration", "org.springframework.boot.actuate",
                        "org.springframework.boot.health"))
                .run(app -> {
                    assertTrue(app.getBean(RedissonLocks.class).isNative());
                    assertEquals(0, app.getBeanNamesForType(LockRegistry.class).length);
                    for (String bean : new String[] {"rlockHealthIndicator", "rlockMetrics", "rlockLockProvider"}) {
                        assertFalse(app.containsBean(bean), bean);
                    }
                });
    }

    @Test
    void it_does_nothing_without_redissons_client() {
        new ApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(RlockAutoConfiguration.class))
                .run(app -> assertEquals(0, app.getBeanNamesForType(RedissonLocks.class).length));
    }

    @Test
    void nothing_runs_unlocked_because_there_are_no_locks() {
        new ApplicationContextRunner()
                .withConfiguration(AutoConfigurations.of(LockedAutoConfiguration.class, RlockAutoConfiguration.class))
                .withBean(SpringLockedTest.Greeting.class, () -> name -> false)
                .run(app -> assertTrue(app.getStartupFailure().getMessage().contains("needs a bean RedissonLocks")));
    }

    @Test
    @ExtendWith(OutputCaptureExtension.class)
    void without_the_module_it_does_not_start_and_says_why(CapturedOutput output) {
        Node without = Node.withoutModule();
        assertThrows(Exception.class, () -> apps.start(without, Map.of()));
        assertTrue(output.getAll().contains("rlock: a server has not loaded the rlock module, or one that is too old.\n"),
                output.getAll());
        assertTrue(output.getAll().contains("set rlock.required=false"), output.getAll());
        without.stop();
    }

    @Test
    void without_the_module_redissons_own_locks_are_used_if_it_is_not_required() throws Exception {
        Node without = Node.withoutModule();
        // ShedLock's locks need the module, so its classes are hidden.
        var classes = new FilteredClassLoader("net.javacrumbs");
        ConfigurableApplicationContext app = apps.start(
                without, WebApplicationType.NONE, classes, Map.of("rlock.required", false), SpringLockedTest.ByInterface.class);
        assertFalse(app.getBean(RedissonLocks.class).isNative());
        assertTrue(app.getBean(SpringLockedTest.Greeting.class).isHeld("a"));
        assertTrue(health(app).startsWith("UP {native=false}"), health(app));
        app.getBean(RlockLockRegistry.class).obtain("a").lock();
        app.getBean(RlockLockRegistry.class).renewLock("a");
        app.getBean(RlockLockRegistry.class).obtain("a").unlock();
        app.close();
        without.stop();
    }

    @Test
    void the_page_names_each_property() throws IOException {
        String page = Files.readString(Path.of("../../docs/spring.md"));
        try (var metadata = RlockMetrics.class.getResourceAsStream("/META-INF/spring-configuration-metadata.json")) {
            String text = new String(metadata.readAllBytes(), StandardCharsets.UTF_8);
            String properties = text.substring(text.indexOf("\"properties\""));
            var names = Pattern.compile("\"name\": \"(rlock\\.[^\"]*)\"").matcher(properties).results().map(found -> found.group(1)).toList();
            assertEquals(8, names.size(), "" + names);
            names.forEach(name -> assertTrue(page.contains("| `" + name + "` |"), name));
        }
    }

    @Test
    void health_is_down_when_a_server_does_not_answer() throws Exception {
        Node node = Node.start();
        ConfigurableApplicationContext app = apps.start(node, Map.of());
        assertTrue(health(app).startsWith("UP {native=true}"), health(app));
        node.stop();
        assertTrue(health(app).startsWith("DOWN"), health(app));
    }

    @Test
    void health_does_not_wait_for_a_server_that_hangs_and_asks_it_once() throws Exception {
        var asked = new AtomicInteger();
        var answers = new CountDownLatch(1);
        RedissonLocks hanging = mock();
        when(hanging.isNative()).thenReturn(true);
        doAnswer(call -> {
            asked.incrementAndGet();
            answers.await();
            return null;
        }).when(hanging).check();
        Hanging.locks = hanging;
        ConfigurableApplicationContext app = apps.start(Node.shared(), Map.of(), Hanging.class);
        assertTrue(health(app).contains("has not answered"), health(app));
        assertEquals(1, asked.get());
        answers.countDown();
        Patience.until("health is up", () -> health(app).startsWith("UP"));
    }

    @Test
    void two_beans_of_locks_start_and_a_method_names_one() throws Exception {
        ConfigurableApplicationContext app = apps.start(Node.shared(), Map.of(), Two.class, Ask.class);
        assertTrue(app.getBean(Ask.class).isHeld());
        assertTrue(health(app).startsWith("UP"), health(app));
        assertFalse(app.containsBean("rlockLockRegistry"));
        var refused = assertThrows(BeanCreationException.class, () -> apps.start(
                Node.shared(), Map.of(), Two.class, SpringLockedTest.Hidden.class));
        assertTrue(refused.getRootCause().getMessage().contains("each of the beans first, second"), "" + refused.getRootCause());
    }

    /** The indicator has another type in each version of Spring Boot. */
    private static String health(ConfigurableApplicationContext app) {
        Object indicator = app.getBean("rlockHealthIndicator");
        try {
            return "" + indicator.getClass().getSuperclass().getMethod("health").invoke(indicator);
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(e);
        }
    }
}
