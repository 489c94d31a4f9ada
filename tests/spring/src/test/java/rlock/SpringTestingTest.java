package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.mockito.Mockito.mock;

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import rlock.redisson.InMemoryLocks;
import rlock.redisson.LockBusyException;
import rlock.redisson.LockLostException;
import rlock.redisson.RedissonLocks;
import rlock.spring.Locked;

/** A service's own tests: with rlock turned off, with locks in memory, and with a mock. */
class SpringTestingTest {
    @AutoClose
    private final SpringApps apps = new SpringApps();

    static class Shop {
        private final RedissonLocks locks;

        Shop(RedissonLocks locks) {
            this.locks = locks;
        }

        @Locked(value = "shop", waitTime = "0s")
        public String work(Runnable work) {
            work.run();
            return locks.getLock("shop").isHeldByCurrentThread() ? "locked" : "not locked";
        }
    }

    // snippet: in-memory
    @Configuration(proxyBeanMethods = false)
    static class LocksInMemory {
        @Bean
        InMemoryLocks redissonLocks() {
            return new InMemoryLocks();
        }
    }
    // end

    @Configuration(proxyBeanMethods = false)
    static class Mocked {
        @Bean
        RedissonLocks redissonLocks() {
            return mock();
        }
    }

    @Test
    void locks_in_memory_lock_methods_too() {
        var app = apps.start(Node.shared(), Map.of(), LocksInMemory.class, Shop.class);
        Shop shop = app.getBean(Shop.class);
        assertEquals("locked", shop.work(() -> CompletableFuture.runAsync(
                () -> assertThrows(LockBusyException.class, () -> shop.work(() -> { }))).join()));
        assertThrows(LockLostException.class, () -> shop.work(() -> {
            app.getBean(InMemoryLocks.class).lose("shop");
            assertTrue(Thread.interrupted());
        }));
    }

    /** A mock runs no work, which must not go unnoticed. */
    @Test
    void with_a_mock_of_the_locks_the_application_starts_and_a_method_fails() {
        Shop shop = apps.start(Node.shared(), Map.of(), Mocked.class, Shop.class).getBean(Shop.class);
        var refused = assertThrows(IllegalStateException.class, () -> shop.work(() -> { }));
        assertTrue(refused.getMessage().contains("Use InMemoryLocks instead"), refused.getMessage());
    }

    @Test
    @ExtendWith(OutputCaptureExtension.class)
    void turned_off_it_says_so_once(CapturedOutput output) {
        Shop shop = apps.start(Node.shared(), Map.of("rlock.enabled", false), Shop.class).getBean(Shop.class);
        assertEquals("not locked", shop.work(() -> { }));
        assertEquals(2, output.getAll().split("rlock.enabled=false", -1).length, output.getAll());
    }
}
