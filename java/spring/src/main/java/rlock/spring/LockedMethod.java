package rlock.spring;

import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.time.Duration;
import java.util.Arrays;
import org.redisson.api.RLock;
import org.springframework.beans.factory.config.ConfigurableBeanFactory;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.context.expression.BeanFactoryResolver;
import org.springframework.context.expression.MethodBasedEvaluationContext;
import org.springframework.core.DefaultParameterNameDiscoverer;
import org.springframework.core.ParameterNameDiscoverer;
import org.springframework.core.ResolvableType;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.expression.Expression;
import org.springframework.expression.common.CompositeStringExpression;
import org.springframework.expression.common.LiteralExpression;
import org.springframework.expression.common.TemplateParserContext;
import org.springframework.expression.spel.standard.SpelExpressionParser;
import org.springframework.util.StringUtils;
import rlock.redisson.RedissonLocks;

/** What {@link Locked} says of one method. */
final class LockedMethod {
    private static final SpelExpressionParser PARSER = new SpelExpressionParser();
    private static final ParameterNameDiscoverer PARAMETERS = new DefaultParameterNameDiscoverer();

    private final Method method;
    private final Locked locked;
    private final Expression name;
    private final ConfigurableBeanFactory beans;

    /** Null: without limit. */
    final Duration wait;

    LockedMethod(Method method, ConfigurableBeanFactory beans, Duration defaultWait) {
        this.method = method;
        this.beans = beans;
        locked = annotation(method);
        name = PARSER.parseExpression(beans.resolveEmbeddedValue(locked.value()), new TemplateParserContext());
        String own = beans.resolveEmbeddedValue(locked.waitTime());
        wait = StringUtils.hasText(own) ? DurationStyle.detectAndParse(own) : defaultWait;
    }

    static boolean isOne(Method method) {
        if (annotation(method) == null) {
            return false;
        }
        if ((method.getModifiers() & (Modifier.PRIVATE | Modifier.STATIC | Modifier.FINAL)) != 0) {
            throw new IllegalStateException("@Locked does nothing on " + method
                    + ": a proxy cannot see calls of private, static and final methods");
        }
        if (Later.isIn(ResolvableType.forMethodReturnType(method)) || Later.isSuspending(method)) {
            throw new IllegalStateException("@Locked cannot hold a lock for " + method
                    + ": it returns before its work is done. Put it on a method that does the work");
        }
        return true;
    }

    static void checkLocks(Method method, ConfigurableListableBeanFactory beans) {
        String[] names = beans.getBeanNamesForType(RedissonLocks.class, true, false);
        if (names.length == 0) {
            throw new IllegalStateException("@Locked on " + method + " needs a bean RedissonLocks."
                    + " The starter makes it if there is one RedissonClient, or one that is @Primary");
        }
        boolean isPlain = names.length == 1 || !annotation(method).locks().isEmpty();
        if (!isPlain && Arrays.stream(names).noneMatch(name -> isPrimary(name, beans))) {
            throw new IllegalStateException("@Locked on " + method + " can use each of the beans " + String.join(", ", names)
                    + ". Say which one by locks = \"…\", or by @Primary");
        }
    }

    private static boolean isPrimary(String name, ConfigurableListableBeanFactory beans) {
        return beans.containsBeanDefinition(name) && beans.getMergedBeanDefinition(name).isPrimary();
    }

    private static Locked annotation(Method method) {
        return AnnotatedElementUtils.findMergedAnnotation(method, Locked.class);
    }

    RedissonLocks locks() {
        return locked.locks().isEmpty()
                ? beans.getBean(RedissonLocks.class) : beans.getBean(locked.locks(), RedissonLocks.class);
    }

    boolean mayBeInsideTransaction() {
        return locked.insideTransaction();
    }

    /** Checks what only the call shows: a method that returns an Object, and a mock of the locks. */
    Object checked(Object result, boolean hasRun) {
        if (!hasRun) {
            throw new IllegalStateException(this + " did not run: RedissonLocks is a mock. Use InMemoryLocks instead");
        }
        if (result != null && Later.is(result.getClass())) {
            throw new IllegalStateException(this + " has returned a " + result.getClass().getName()
                    + ", whose work is not done. @Locked cannot hold a lock for it");
        }
        return result;
    }

    boolean declares(Throwable thrown) {
        return Arrays.stream(method.getExceptionTypes()).anyMatch(type -> type.isInstance(thrown));
    }

    RLock lock(RedissonLocks locks, Object target, Object[] arguments) {
        String of = name(target, arguments);
        return switch (locked.kind()) {
            case PLAIN -> locks.getLock(of);
            case READ -> locks.getReadWriteLock(of).readLock();
            case WRITE -> locks.getReadWriteLock(of).writeLock();
        };
    }

    /** A null that left nothing in the name would make one lock of many. */
    private String name(Object target, Object[] arguments) {
        var context = new MethodBasedEvaluationContext(target, method, arguments, PARAMETERS);
        context.setBeanResolver(new BeanFactoryResolver(beans));
        Expression[] parts = name instanceof CompositeStringExpression all ? all.getExpressions() : new Expression[] {name};
        StringBuilder text = new StringBuilder();
        for (Expression part : parts) {
            String value = part.getValue(context, String.class);
            if (!(part instanceof LiteralExpression) && !StringUtils.hasText(value)) {
                throw new IllegalArgumentException("no name for the lock of " + method + ": "
                        + part.getExpressionString() + " is " + (value == null ? "null" : "empty"));
            }
            text.append(value);
        }
        return text.toString();
    }

    @Override
    public String toString() {
        return method.getDeclaringClass().getSimpleName() + "." + method.getName() + "()";
    }
}
