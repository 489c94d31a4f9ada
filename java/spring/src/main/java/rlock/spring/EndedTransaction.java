package rlock.spring;

import java.util.List;
import java.util.concurrent.Callable;
import org.springframework.beans.factory.BeanFactory;
import org.springframework.core.Ordered;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.TransactionExecution;
import org.springframework.transaction.TransactionExecutionListener;
import org.springframework.transaction.TransactionStatus;
import org.springframework.transaction.support.DefaultTransactionDefinition;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * A transaction that has committed or rolled back. Its callbacks run on this thread now. Its connection is still bound
 * to the thread, and what is written to it commits when the callbacks have ended: after the release of their locks. So
 * it is suspended while such a callback has a lock.
 */
final class EndedTransaction {
    private final BeanFactory beans;

    EndedTransaction(BeanFactory beans) {
        this.beans = beans;
    }

    /** In {@code afterCompletion} there are no synchronizations any more, in {@code afterCommit} ours has been called. */
    static boolean isHere() {
        return TransactionSynchronizationManager.isActualTransactionActive()
                && (!TransactionSynchronizationManager.isSynchronizationActive()
                        || TransactionSynchronizationManager.getSynchronizations().stream()
                                .anyMatch(one -> one instanceof Committed committed && committed.isCalled));
    }

    <T> T suspendedDuring(Callable<T> work) throws Exception {
        List<PlatformTransactionManager> managers =
                beans.getBeanProvider(PlatformTransactionManager.class).stream().toList();
        return suspendedDuring(managers, work);
    }

    private static <T> T suspendedDuring(List<PlatformTransactionManager> managers, Callable<T> work) throws Exception {
        if (managers.isEmpty()) {
            return work.call();
        }
        PlatformTransactionManager first = managers.get(0);
        TransactionStatus none = first.getTransaction(
                new DefaultTransactionDefinition(TransactionDefinition.PROPAGATION_NOT_SUPPORTED));
        try {
            return suspendedDuring(managers.subList(1, managers.size()), work);
        } finally {
            first.commit(none);
        }
    }

    /** Marks a transaction when it has committed, before any other of its callbacks. */
    static final class Mark implements TransactionExecutionListener {
        @Override
        public void beforeCommit(TransactionExecution transaction) {
            if (TransactionSynchronizationManager.isSynchronizationActive()) {
                TransactionSynchronizationManager.registerSynchronization(new Committed());
            }
        }
    }

    private static final class Committed implements TransactionSynchronization {
        boolean isCalled;

        @Override
        public int getOrder() {
            return Ordered.HIGHEST_PRECEDENCE;
        }

        @Override
        public void afterCommit() {
            isCalled = true;
        }
    }
}
