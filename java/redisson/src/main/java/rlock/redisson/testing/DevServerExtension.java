package rlock.redisson.testing;

import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ExtensionContext.Store;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * For JUnit 5: {@code @ExtendWith(DevServerExtension.class)}. A test, or a method before each or all of them, that has a
 * parameter of the type {@link DevServer} gets the one server of its class, which ends with the class's tests.
 */
public final class DevServerExtension implements ParameterResolver {
    private static final Namespace NAMESPACE = Namespace.create(DevServerExtension.class);

    /** JUnit makes one. */
    public DevServerExtension() {
        // The server starts when the first test asks for it.
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext test) {
        return parameter.getParameter().getType() == DevServer.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext test) {
        ExtensionContext ofClass = test;
        while (ofClass.getTestMethod().isPresent()) {
            ofClass = ofClass.getParent().orElseThrow(IllegalStateException::new);
        }
        Store store = ofClass.getStore(NAMESPACE);
        return store.getOrComputeIfAbsent(Running.class, none -> new Running(), Running.class).server;
    }

    /** JUnit closes it with the class. */
    private static final class Running implements Store.CloseableResource {
        final DevServer server = DevServer.start();

        @Override
        public void close() {
            server.close();
        }
    }
}
