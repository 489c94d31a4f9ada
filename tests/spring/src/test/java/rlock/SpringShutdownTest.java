package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AutoClose;
import org.junit.jupiter.api.Test;
import org.springframework.boot.WebApplicationType;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.SmartLifecycle;
import org.springframework.context.annotation.Configuration;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import rlock.spring.Locked;

/** An application that closes, as by SIGTERM, leaves no lock behind. */
class SpringShutdownTest {
    @AutoClose
    private final SpringApps apps = new SpringApps();

    @Configuration(proxyBeanMethods = false)
    @EnableScheduling
    static class Jobs {
    }

    /** Stopped together with the schedulers, before everything else. */
    static class First implements SmartLifecycle {
        volatile boolean isRunning;

        @Override
        public void start() {
            isRunning = true;
        }

        @Override
        public void stop() {
            isRunning = false;
        }

        @Override
        public boolean isRunning() {
            return isRunning;
        }
    }

    @RestController
    static class Desk {
        private final Map<String, CountDownLatch> begun = new ConcurrentHashMap<>();
        private final CountDownLatch goOn = new CountDownLatch(1);

        /** Says whether it came to its own end. */
        @GetMapping("/work/{name}")
        @Locked("closing:#{#name}")
        public String work(@PathVariable String name) {
            begun.computeIfAbsent(name, none -> new CountDownLatch(1)).countDown();
            try {
                goOn.await();
                return name + " is done";
            } catch (InterruptedException e) {
                return name + " was interrupted";
            }
        }

        public void goOn() {
            goOn.countDown();
        }

        public void untilBegun(String name) throws InterruptedException {
            begun.computeIfAbsent(name, none -> new CountDownLatch(1)).await();
        }
    }

    private static boolean isLocked(String name) {
        try (Native client = Node.shared().client()) {
            return ("" + client.say("EXISTS closing:" + name)).contains("1");
        }
    }

    private ConfigurableApplicationContext start() {
        return apps.start(Node.shared(), WebApplicationType.SERVLET, null,
                Map.of("rlock.default-wait", "5m"), Desk.class, Jobs.class, First.class);
    }

    private static CompletableFuture<String> request(ConfigurableApplicationContext app, String name) {
        URI address = URI.create("http://127.0.0.1:" + app.getEnvironment().getProperty("local.server.port") + "/work/" + name);
        return HttpClient.newHttpClient().sendAsync(HttpRequest.newBuilder(address).build(), BodyHandlers.ofString())
                .thenApply(HttpResponse::body);
    }

    @Test
    void requests_and_scheduled_jobs_come_to_their_end_first() throws Exception {
        ConfigurableApplicationContext app = start();
        Desk desk = app.getBean(Desk.class);
        var scheduled = new CompletableFuture<String>();
        app.getBean(ThreadPoolTaskScheduler.class).execute(() -> scheduled.complete(desk.work("job")));
        var requested = request(app, "request");
        desk.untilBegun("job");
        desk.untilBegun("request");
        First first = app.getBean(First.class);
        var closed = CompletableFuture.runAsync(app::close);
        Patience.until("it stops its beans", () -> !first.isRunning());
        desk.goOn();
        closed.join();
        assertEquals("job is done", scheduled.join());
        assertEquals("request is done", requested.join());
        assertTrue(!isLocked("job") && !isLocked("request"));
    }

    @Test
    void what_still_runs_then_is_interrupted_and_its_lock_is_free_at_the_end() throws Exception {
        ConfigurableApplicationContext app = start();
        Desk desk = app.getBean(Desk.class);
        var runs = CompletableFuture.supplyAsync(() -> desk.work("loop"));
        desk.untilBegun("loop");
        var waits = CompletableFuture.supplyAsync(() -> desk.work("loop"));
        Patience.until("the other one waits", () -> {
            try (Native client = Node.shared().client()) {
                return ("" + client.say("RLOCK.INSPECT closing:loop")).contains("waiter-count, 1,");
            }
        });
        app.close();
        assertTrue(!isLocked("loop"));
        assertEquals("loop was interrupted", runs.join());
        // The first one may release its lock before the other is interrupted, which then has the lock, and works.
        assertTrue(waits.handle((said, refused) -> refused != null || said.equals("loop was interrupted")).join());
    }
}
