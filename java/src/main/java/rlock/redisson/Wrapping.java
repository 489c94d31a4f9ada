package rlock.redisson;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import org.redisson.RedissonObject;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.api.options.CommonOptions;
import org.redisson.api.options.CommonParams;

/**
 * A RedissonClient of which all is Redisson's but the locks.
 *
 * <p>By a proxy, since the interface has hundreds of methods, and others in each version of Redisson.
 */
final class Wrapping implements InvocationHandler {
    private final RedissonClient redisson;
    private final Server server;
    private final Locks locks;

    private Wrapping(RedissonClient redisson, Server server) {
        this.redisson = redisson;
        this.server = server;
        locks = new Locks(server);
    }

    static RedissonClient of(RedissonClient redisson, Server server) {
        Wrapping wrapping = new Wrapping(redisson, server);
        RedissonClient wrapped = (RedissonClient) Proxy.newProxyInstance(
                RedissonClient.class.getClassLoader(), new Class<?>[] {RedissonClient.class}, wrapping);
        wrapping.locks.belongTo(wrapped);
        return wrapped;
    }

    /** What is wrapped; null if nothing is. */
    static RedissonClient unwrap(RedissonClient client) {
        InvocationHandler handler = Proxy.isProxyClass(client.getClass()) ? Proxy.getInvocationHandler(client) : null;
        return handler instanceof Wrapping ? ((Wrapping) handler).redisson : null;
    }

    /** The key of one of Redisson's locks. */
    static String key(RLock redissons) {
        return ((RedissonObject) redissons).getRawName();
    }

    @Override
    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        switch (method.getName()) {
            case "getLock":
                return new NativeLock(server(arguments[0]), locks, (RLock) redissons(method, arguments), Side.PLAIN);
            case "getFencedLock":
                return new NativeFencedLock(
                        server(arguments[0]), locks, (RFencedLock) redissons(method, arguments));
            case "getReadWriteLock":
                return new NativeReadWriteLock(
                        server(arguments[0]), locks, (RReadWriteLock) redissons(method, arguments));
            case "getMultiLock":
                return hasWrapped(arguments) ? new NativeMultiLock((RLock[]) arguments[0])
                        : redissons(method, arguments);
            case "getRedLock":
                if (hasWrapped(arguments)) {
                    throw new UnsupportedOperationException(
                            "Redisson's RedLock, which is deprecated, knows no locks but Redisson's own");
                }
                return redissons(method, arguments);
            case "equals":
                return proxy == arguments[0];
            case "hashCode":
                return System.identityHashCode(proxy);
            case "toString":
                return "Rlock{" + redisson + "}";
            default:
                return redissons(method, arguments);
        }
    }

    /** With the options of one lock, if it has any. */
    private Server server(Object nameOrOptions) {
        return nameOrOptions instanceof CommonOptions
                ? server.with(server.executor().copy((CommonParams) nameOrOptions)) : server;
    }

    private static boolean hasWrapped(Object[] arguments) {
        return arguments[0] instanceof RLock[]
                && Arrays.stream((RLock[]) arguments[0]).anyMatch(NativeLock.class::isInstance);
    }

    private Object redissons(Method method, Object[] arguments) throws Throwable {
        try {
            return method.invoke(redisson, arguments);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }
}
