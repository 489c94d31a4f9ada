package rlock;

import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;

/** Settings of Redisson that not all pinned versions have, or have under other types: set by their names. */
final class Setting {
    private Setting() {
    }

    /** Sets a constant by its name. */
    static void set(Object config, String name, String value) {
        Method setter = setter(config, name);
        Object constant = Arrays.stream(setter.getParameterTypes()[0].getEnumConstants())
                .filter(each -> each.toString().equals(value))
                .findFirst().orElseThrow();
        call(setter, config, constant);
    }

    /** A name mapper that puts a prefix before each name. */
    static void prefixNames(Object config, String prefix) {
        Method setter = setter(config, "NameMapper");
        Class<?> type = setter.getParameterTypes()[0];
        Object mapper = Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (self, method, names) ->
                method.getName().equals("map") ? prefix + names[0] : names[0].toString().substring(prefix.length()));
        call(setter, config, mapper);
    }

    private static Method setter(Object config, String name) {
        return Arrays.stream(config.getClass().getMethods())
                .filter(method -> method.getName().equals("set" + name) && !method.isBridge())
                .findFirst().orElseThrow();
    }

    private static void call(Method setter, Object config, Object value) {
        try {
            setter.invoke(config, value);
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(e);
        }
    }
}
