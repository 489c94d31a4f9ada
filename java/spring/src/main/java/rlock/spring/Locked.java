package rlock.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * The method runs under a lock:
 *
 * <pre>{@code @Locked("orders:#{#id}") @Transactional public void ship(long id) …}</pre>
 *
 * <p>The lock is taken before a transaction of the same method begins, and released after its commit. It is renewed
 * for as long as the method runs. If it is lost meanwhile, the thread is interrupted, a transaction is not committed any
 * more, and the caller gets a {@link rlock.redisson.LockLostException}.
 *
 * <p>Only calls from other beans are seen, as always with Spring's proxies. Private, static and final methods, and those
 * that return before their work is done (futures, publishers, Callable, emitters), are refused when the bean is made.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface Locked {

    /**
     * The lock's name: <code>#{…}</code> is SpEL with the arguments by their names ({@code #id}, {@code #p0}) and beans
     * ({@code @bean}); <code>${…}</code> is a property. The call fails if an expression is null or empty.
     *
     * @return the template
     */
    String value();

    /**
     * The kind of the lock.
     *
     * @return a plain lock by default
     */
    Kind kind() default Kind.PLAIN;

    /**
     * How long to wait for the lock at most: {@code 10s}, {@code PT10S}, or <code>${…}</code>. Then a {@link
     * rlock.redisson.LockBusyException} is thrown.
     *
     * @return if empty, what {@code rlock.default-wait} says
     */
    String waitTime() default "";

    /**
     * The name of the bean {@link rlock.redisson.RedissonLocks}, if there are several.
     *
     * @return if empty, the only one or the one that is {@code @Primary}
     */
    String locks() default "";

    /**
     * Whether the method may be called inside a transaction. Then the lock is released before that one commits,
     * which is right only if this method's work does not depend on it: as with a transaction of its own.
     *
     * @return false: such a call is refused
     */
    boolean insideTransaction() default false;

    /** The kind of a lock. */
    enum Kind {
        /** {@code getLock}. */
        PLAIN,
        /** The read side of {@code getReadWriteLock}. */
        READ,
        /** The write side of {@code getReadWriteLock}. */
        WRITE
    }
}
