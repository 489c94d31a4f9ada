package rlock;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.io.DefaultResourceLoader;

/** Applications with Spring Boot, which end with the test. */
final class SpringApps implements AutoCloseable {
    private final List<ConfigurableApplicationContext> started = new ArrayList<>();

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    static class Automatic {
    }

    /** An application with everything that is automatic and with these beans, but without the web. */
    ConfigurableApplicationContext start(Node node, Map<String, ?> properties, Class<?>... beans) {
        return start(node, WebApplicationType.NONE, null, properties, beans);
    }

    ConfigurableApplicationContext start(
            Node node, WebApplicationType web, ClassLoader classes, Map<String, ?> properties, Class<?>... beans) {
        Map<String, Object> all = new HashMap<>(Map.of(
                "spring.data.redis.port", node.port(), "server.port", 0, "spring.main.banner-mode", "off",
                // No configuration except what a test starts with.
                "spring.config.location", "optional:file:none/", "spring.datasource.generate-unique-name", true));
        all.putAll(properties);
        String[] arguments = all.entrySet().stream()
                .map(property -> "--" + property.getKey() + "=" + property.getValue()).toArray(String[]::new);
        var application = new SpringApplicationBuilder(Automatic.class).sources(beans).web(web);
        if (classes != null) {
            application.resourceLoader(new DefaultResourceLoader(classes));
        }
        var context = application.run(arguments);
        started.add(context);
        return context;
    }

    @Override
    public void close() {
        started.forEach(ConfigurableApplicationContext::close);
    }
}
