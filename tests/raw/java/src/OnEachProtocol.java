import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.Parameter;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.provider.EnumSource;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;

/** Tests on RESP2 and on RESP3, with an empty server each. */
@ParameterizedClass
@EnumSource(value = RedisProtocol.class, names = {"RESP2", "RESP3"})
abstract class OnEachProtocol {
    static final HostAndPort SERVER = address("RLOCK_URL");

    @Parameter RedisProtocol protocol;
    RedisClient redis;

    @BeforeEach
    void connect() {
        redis = RedisClient.builder().hostAndPort(SERVER).clientConfig(config().build()).build();
        redis.flushAll();
    }

    @AfterEach
    void close() {
        redis.close();
    }

    DefaultJedisClientConfig.Builder config() {
        return DefaultJedisClientConfig.builder().protocol(protocol);
    }

    static HostAndPort address(String variable) {
        URI uri = URI.create(System.getenv(variable));
        return new HostAndPort(uri.getHost(), uri.getPort());
    }

    Object run(Rlock command, String... arguments) {
        return redis.sendCommand(command, arguments);
    }

    static void assertLeft(Object reply, long atMost) {
        assertTrue(reply instanceof Long left && 1 <= left && left <= atMost, () -> "not refused: " + reply);
    }
}
