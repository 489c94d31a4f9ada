package rlock.spring;

import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.util.Arrays;
import java.util.Set;
import org.springframework.core.ReactiveAdapterRegistry;
import org.springframework.core.ResolvableType;
import org.springframework.util.ClassUtils;

/** What a method returns while its work is still to be done: futures, publishers, and what Spring MVC calls later. */
final class Later {
    /** By name, since an application may be without them. */
    private static final Set<String> TYPES = Set.of(
            "java.util.concurrent.Callable", "java.util.concurrent.Future", "java.util.concurrent.CompletionStage",
            "org.springframework.web.context.request.async.DeferredResult",
            "org.springframework.web.context.request.async.WebAsyncTask",
            "org.springframework.web.servlet.mvc.method.annotation.ResponseBodyEmitter",
            "org.springframework.web.servlet.mvc.method.annotation.StreamingResponseBody");

    private Later() {
    }

    /** Also as the body of a response. */
    static boolean isIn(ResolvableType returned) {
        return is(returned.resolve(Object.class)) || returned.getType() instanceof ParameterizedType
                && Arrays.stream(returned.getGenerics()).anyMatch(Later::isIn);
    }

    /** Kotlin compiles a suspend function to a method with a continuation as its last parameter. */
    static boolean isSuspending(Method method) {
        Class<?>[] parameters = method.getParameterTypes();
        return parameters.length > 0
                && parameters[parameters.length - 1].getName().equals("kotlin.coroutines.Continuation");
    }

    static boolean is(Class<?> type) {
        for (Class<?> one = type; one != null; one = one.getSuperclass()) {
            if (TYPES.contains(one.getName())) {
                return true;
            }
        }
        return ClassUtils.getAllInterfacesForClassAsSet(type).stream().anyMatch(one -> TYPES.contains(one.getName()))
                || ReactiveAdapterRegistry.getSharedInstance().getAdapter(type) != null;
    }
}
