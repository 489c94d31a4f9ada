package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.annotation.Propagation;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.event.TransactionPhase;
import org.springframework.transaction.event.TransactionalEventListener;
import org.springframework.transaction.support.TransactionCallback;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.transaction.support.TransactionTemplate;
import rlock.redisson.RedissonLocks;
import rlock.spring.Locked;

/** {@code @Locked} in the callbacks of a transaction: before its commit, and when it has ended. */
class SpringAfterCommitTest {
    private static final AtomicInteger names = new AtomicInteger();

    @AutoClose
    private static final SpringApps apps = new SpringApps();

    private static ConfigurableApplicationContext app;

    private final String name = "mail-" + names.incrementAndGet();

    record Mail(String name, String kind) {
    }

    static class Outbox {
        private final JdbcTemplate database;

        Outbox(JdbcTemplate database) {
            database.execute("create table mails (name varchar(40))");
            this.database = database;
        }

        @Transactional
        public void add(String name) {
            database.update("insert into mails values (?)", name);
        }
    }

    /** Spring only logs what a listener throws after the commit. So each listener that holds its lock adds a row. */
    static class Listeners {
        private final JdbcTemplate database;
        private final Outbox outbox;
        private final RedissonLocks locks;

        Listeners(JdbcTemplate database, Outbox outbox, RedissonLocks locks) {
            this.database = database;
            this.outbox = outbox;
            this.locks = locks;
        }

        @TransactionalEventListener(condition = "#mail.kind == 'plain'")
        @Locked("mails:#{#mail.name}")
        public void plain(Mail mail) {
            if (locks.getLock("mails:" + mail.name).isHeldByCurrentThread()) {
                database.update("insert into mails values (?)", mail.name);
            }
        }

        @TransactionalEventListener(condition = "#mail.kind == 'joins the transaction'")
        @Locked("mails:#{#mail.name}")
        public void joins(Mail mail) {
            outbox.add(mail.name);
        }

        @TransactionalEventListener(condition = "#mail.kind == 'new transaction'")
        @Locked("mails:#{#mail.name}")
        @Transactional(propagation = Propagation.REQUIRES_NEW)
        public void begins(Mail mail) {
            outbox.add(mail.name);
        }

        @TransactionalEventListener(condition = "#mail.kind == 'rolled back'", phase = TransactionPhase.AFTER_ROLLBACK)
        @Locked("mails:#{#mail.name}")
        public void rolledBack(Mail mail) {
            outbox.add(mail.name);
        }

        @TransactionalEventListener(condition = "#mail.kind == 'before commit'", phase = TransactionPhase.BEFORE_COMMIT)
        @Locked("mails:#{#mail.name}")
        public void early(Mail mail) {
            outbox.add(mail.name);
        }
    }

    @BeforeAll
    static void start() {
        app = apps.start(Node.shared(), Map.of(), Outbox.class, Listeners.class);
    }

    private int rows() {
        return app.getBean(JdbcTemplate.class)
                .queryForObject("select count(*) from mails where name = ?", Integer.class, name);
    }

    private <T> T inTransaction(TransactionCallback<T> work) {
        return new TransactionTemplate(app.getBean(PlatformTransactionManager.class)).execute(work);
    }

    /** The rows that another connection sees while the ended transaction still has its own. */
    private CompletableFuture<Integer> rowsAfterCompletion() {
        var rows = new CompletableFuture<Integer>();
        TransactionSynchronizationManager.registerSynchronization(new TransactionSynchronization() {
            @Override
            public void afterCompletion(int status) {
                rows.complete(CompletableFuture.supplyAsync(() -> rows()).join());
            }
        });
        return rows;
    }

    @ParameterizedTest
    @ValueSource(strings = {"plain", "joins the transaction", "new transaction", "rolled back"})
    void a_listener_that_runs_later_has_the_lock_and_commits_before_its_release(String kind) {
        var rows = inTransaction(status -> {
            app.publishEvent(new Mail(name, kind));
            if (kind.equals("rolled back")) {
                status.setRollbackOnly();
            }
            return rowsAfterCompletion();
        });
        assertEquals(1, rows.join());
    }

    @Test
    void a_callback_after_the_commit_has_the_lock_too() {
        var rows = inTransaction(status -> {
            TransactionSynchronizationManager.registerSynchronization(new TransactionSynchronization() {
                @Override
                public void afterCommit() {
                    app.getBean(Listeners.class).plain(new Mail(name, "plain"));
                }
            });
            return rowsAfterCompletion();
        });
        assertEquals(1, rows.join());
    }

    @Test
    void a_listener_before_the_commit_is_refused() {
        assertThrows(IllegalStateException.class, () -> inTransaction(status -> {
            app.publishEvent(new Mail(name, "before commit"));
            return null;
        }));
        assertEquals(0, rows());
    }
}
