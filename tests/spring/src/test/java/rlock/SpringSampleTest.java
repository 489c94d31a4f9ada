package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.CookieManager;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.redisson.api.RedissonClient;
import org.redisson.spring.data.connection.RedissonConnectionFactory;
import org.springframework.boot.SpringApplication;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.core.StringRedisTemplate;
import rlock.redisson.RedissonLocks;
import rlock.sample.Nightly;
import rlock.sample.Shop;
import rlock.sample.Stock;

/** The sample, twice on one server. */
class SpringSampleTest {
    private static final int THREADS = 200;

    private static ConfigurableApplicationContext shop;
    private static ConfigurableApplicationContext other;
    private static final HttpClient http = HttpClient.newBuilder().cookieHandler(new CookieManager()).build();

    @BeforeAll
    static void open() {
        shop = start();
        other = start();
    }

    private static ConfigurableApplicationContext start() {
        return SpringApplication.run(Shop.class, "--spring.data.redis.port=" + Node.shared().port(), "--server.port=0");
    }

    @AfterAll
    static void close() {
        shop.close();
        other.close();
    }

    @Test
    void locks_work_alongside_everything_else_that_redisson_does_for_spring() throws Exception {
        assertEquals(1, shop.getBeansOfType(RedissonClient.class).size());
        assertTrue(shop.getBean(RedissonLocks.class).isNative());
        assertEquals(shop.getBean(RedissonClient.class), shop.getBean(RedissonLocks.class).getRedisson());
        assertTrue(shop.getBean(RedisConnectionFactory.class) instanceof RedissonConnectionFactory);
        assertEquals("1", get(shop, "/visits"));
        assertEquals("2", get(shop, "/visits"));
        // The session and the cache are in Redis, where the other finds them.
        assertEquals("3", get(other, "/visits"));
        assertEquals(get(shop, "/orders/7/label"), get(other, "/orders/7/label"));
        assertNotEquals(get(shop, "/orders/7/label"), get(shop, "/orders/8/label"));
        assertEquals("shipped", post(shop, "/orders/7/ship"));
        assertEquals("shipped before", post(shop, "/orders/7/ship"));
    }

    @Test
    void two_hundred_threads_of_two_instances_lose_no_update_and_are_measured() throws Exception {
        double before = figure(shop, "rlock.wait", "COUNT") + figure(other, "rlock.wait", "COUNT");
        try (Crew crew = new Crew()) {
            for (int i = 0; i < THREADS; i++) {
                Stock stock = (i % 2 == 0 ? shop : other).getBean(Stock.class);
                crew.start(() -> stock.add("apples"));
            }
            crew.finish();
        }
        assertEquals("" + THREADS, shop.getBean(StringRedisTemplate.class).opsForValue().get("stock:apples"));
        double after = figure(shop, "rlock.wait", "COUNT") + figure(other, "rlock.wait", "COUNT");
        assertTrue(after - before >= THREADS, before + " and then " + after);
        assertTrue(figure(shop, "rlock.held", "COUNT") >= THREADS / 2);
        assertTrue(figure(shop, "rlock.wait", "MAX") > 0);
        assertEquals(0, figure(shop, "rlock.lost", "COUNT"));
    }

    @Test
    void a_scheduled_job_runs_in_one_instance() {
        Patience.until("the job has run", () -> runs() > 0);
        // Both instances began the job when they started, and whichever came second had to skip it.
        assertEquals(1, runs());
    }

    private static int runs() {
        return shop.getBean(Nightly.class).runs() + other.getBean(Nightly.class).runs();
    }

    private static double figure(ConfigurableApplicationContext of, String name, String statistic) throws Exception {
        String text = get(of, "/actuator/metrics/" + name);
        var found = Pattern.compile("\"statistic\":\"" + statistic + "\",\"value\":([0-9.E-]+)").matcher(text);
        assertTrue(found.find(), text);
        return Double.parseDouble(found.group(1));
    }

    private static String get(ConfigurableApplicationContext of, String path) throws Exception {
        return body(HttpRequest.newBuilder(address(of, path)).build());
    }

    private static String post(ConfigurableApplicationContext of, String path) throws Exception {
        return body(HttpRequest.newBuilder(address(of, path)).POST(HttpRequest.BodyPublishers.noBody()).build());
    }

    private static URI address(ConfigurableApplicationContext of, String path) {
        return URI.create("http://127.0.0.1:" + of.getEnvironment().getProperty("local.server.port") + path);
    }

    private static String body(HttpRequest request) throws IOException, InterruptedException {
        var response = http.send(request, BodyHandlers.ofString());
        assertEquals(200, response.statusCode(), response.body());
        return response.body();
    }
}
