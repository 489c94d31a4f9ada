package rlock.spring;

import java.lang.reflect.Method;
import org.slf4j.LoggerFactory;
import org.springframework.aop.Advisor;
import org.springframework.aop.config.AopConfigUtils;
import org.springframework.aop.support.DefaultPointcutAdvisor;
import org.springframework.aop.support.StaticMethodMatcherPointcut;
import org.springframework.beans.factory.config.BeanDefinition;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.beans.factory.support.BeanDefinitionRegistry;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.context.annotation.ImportBeanDefinitionRegistrar;
import org.springframework.context.annotation.Role;
import org.springframework.core.env.Environment;
import org.springframework.core.type.AnnotationMetadata;
import org.springframework.transaction.ConfigurableTransactionManager;

/**
 * Sets up {@link Locked}. It has no conditions, so that no method with this annotation runs unlocked because something is
 * missing.
 */
@AutoConfiguration
@EnableConfigurationProperties(RlockProperties.class)
@Import(LockedAutoConfiguration.Proxies.class)
public class LockedAutoConfiguration {

    /** Outside of transactions and caches, which have the order Integer.MAX_VALUE; inside of security, which has low orders. */
    static final int ORDER = Integer.MAX_VALUE - 1000;

    /** Spring makes one. */
    public LockedAutoConfiguration() {
    }

    @Bean
    @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
    static Running rlockRunning() {
        return new Running();
    }

    @Bean
    @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
    static Advisor rlockLockedAdvisor(
            ConfigurableListableBeanFactory beans, Environment environment, Running rlockRunning) {
        boolean isEnabled = environment.getProperty("rlock.enabled", Boolean.class, true);
        if (!isEnabled) {
            LoggerFactory.getLogger(Locked.class).warn("rlock.enabled=false: methods with @Locked run without a lock");
        }
        var pointcut = new StaticMethodMatcherPointcut() {
            @Override
            public boolean matches(Method method, Class<?> target) {
                boolean isLocked = isEnabled && LockedMethod.isOne(method);
                if (isLocked) {
                    LockedMethod.checkLocks(method, beans);
                }
                return isLocked;
            }
        };
        var advisor = new DefaultPointcutAdvisor(pointcut, new LockedInterceptor(beans, rlockRunning));
        advisor.setOrder(environment.getProperty("rlock.locked-order", Integer.class, ORDER));
        return advisor;
    }

    /** Every transaction manager, the application's own too, checks the locks before it commits. */
    @Bean
    @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
    static BeanPostProcessor rlockLastLook() {
        return new BeanPostProcessor() {
            @Override
            public Object postProcessBeforeInitialization(Object bean, String name) {
                if (bean instanceof ConfigurableTransactionManager manager) {
                    manager.addListener(new Held());
                    manager.addListener(new EndedTransaction.Mark());
                }
                return bean;
            }
        };
    }

    /** The same as for transactions: there is one creator of proxies, and Spring Boot decides their kind. */
    static class Proxies implements ImportBeanDefinitionRegistrar {
        @Override
        public void registerBeanDefinitions(AnnotationMetadata importing, BeanDefinitionRegistry registry) {
            AopConfigUtils.registerAutoProxyCreatorIfNecessary(registry);
        }
    }
}
