package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.context.ApplicationContext;
import org.springframework.integration.support.locks.LockRegistry;
import org.springframework.test.context.ContextConfiguration;
import org.springframework.test.context.TestPropertySource;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import rlock.redisson.InMemoryLocks;
import rlock.redisson.RedissonLocks;

/** A service's test without a server, in a transaction that Spring rolls back and that belongs to the test's thread. */
@Timeout(value = 90, threadMode = Timeout.ThreadMode.SAME_THREAD)
@ContextConfiguration(classes = {SpringApps.Automatic.class, SpringTestingTest.Shop.class})
@TestPropertySource(properties = {
    "spring.config.location=optional:file:none/",
    "spring.autoconfigure.exclude=org.redisson.spring.starter.RedissonAutoConfigurationV2,"
            + "org.redisson.spring.starter.RedissonAutoConfigurationV4"})
@SpringBootTest(properties = "rlock.enabled=false")
@Transactional
class SpringTurnedOffTest {
    @Autowired
    private ApplicationContext app;

    @Test
    void methods_run_without_a_lock_in_the_tests_transaction() {
        assertEquals("not locked", app.getBean(SpringTestingTest.Shop.class).work(
                () -> assertTrue(TransactionSynchronizationManager.isActualTransactionActive())));
    }

    @Test
    void locks_without_annotations_are_in_memory() throws Throwable {
        assertInstanceOf(InMemoryLocks.class, app.getBean(RedissonLocks.class));
        assertTrue(app.getBean(LockRegistry.class).obtain("a").tryLock());
        app.getBean(LockRegistry.class).obtain("a").unlock();
        var job = new LockConfiguration(ClockProvider.now(), "job", Duration.ofMinutes(1), Duration.ZERO);
        var lock = app.getBean(LockProvider.class).lock(job).orElseThrow();
        assertTrue(app.getBean(LockProvider.class).lock(job).isEmpty());
        lock.unlock();
        app.getBean(LockProvider.class).lock(job).orElseThrow().unlock();
    }
}
