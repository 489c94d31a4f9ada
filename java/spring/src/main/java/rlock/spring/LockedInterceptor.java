package rlock.spring;

import java.lang.reflect.Method;
import java.lang.reflect.UndeclaredThrowableException;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.aopalliance.intercept.MethodInterceptor;
import org.aopalliance.intercept.MethodInvocation;
import org.redisson.api.RLock;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.config.ConfigurableBeanFactory;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import rlock.redisson.RedissonLocks;

/** Takes the lock, and releases it. It finds its beans when it is called, since it is made before all of them. */
final class LockedInterceptor implements MethodInterceptor {
    private final ConfigurableBeanFactory beans;
    private final Running running;
    private final EndedTransaction ended;
    private final Map<Method, LockedMethod> methods = new ConcurrentHashMap<>();

    LockedInterceptor(ConfigurableBeanFactory beans, Running running) {
        this.beans = beans;
        this.running = running;
        ended = new EndedTransaction(beans);
    }

    @Override
    public Object invoke(MethodInvocation call) throws Throwable {
        Method specific = AopUtils.getMostSpecificMethod(call.getMethod(), call.getThis().getClass());
        LockedMethod method = methods.computeIfAbsent(specific, this::understood);
        if (EndedTransaction.isHere()) {
            return ended.suspendedDuring(() -> locked(method, call));
        }
        if (!method.mayBeInsideTransaction() && TransactionSynchronizationManager.isActualTransactionActive()) {
            throw new IllegalStateException("a transaction is active already, and would commit only after " + method
                    + " has released its lock. Put @Locked where the transaction begins, or around it");
        }
        return locked(method, call);
    }

    private Object locked(LockedMethod method, MethodInvocation call) throws Exception {
        RedissonLocks locks = method.locks();
        RLock lock = method.lock(locks, call.getThis(), call.getArguments());
        var hasRun = new AtomicBoolean();
        Callable<Object> work = () -> {
            hasRun.set(true);
            return Held.during(locks, lock, () -> proceed(call));
        };
        try {
            Object result = running.during(
                    () -> method.wait == null ? locks.call(lock, work) : locks.call(lock, method.wait, work));
            return method.checked(result, hasRun.get());
        } catch (InterruptedException e) {
            if (method.declares(e)) {
                throw e;
            }
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while " + method + " waited for its lock or ran", e);
        }
    }

    private LockedMethod understood(Method method) {
        return new LockedMethod(method, beans, beans.getBean(RlockProperties.class).defaultWait());
    }

    private static Object proceed(MethodInvocation call) throws Exception {
        try {
            return call.proceed();
        } catch (Exception | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new UndeclaredThrowableException(e);
        }
    }
}
