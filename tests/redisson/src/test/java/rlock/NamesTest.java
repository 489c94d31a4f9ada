package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static rlock.Side.Kind.PLAIN;
import static rlock.Side.Kind.READ;
import static rlock.Side.Kind.WRITE;

import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Redisson puts braces around a lock's name in the names it derives, unless there is one in it: so does the module. */
class NamesTest {
    private static final int STEPS = 60;

    private static RedissonClient fleet;
    private static Native client;

    @BeforeAll
    static void connect() {
        fleet = Fleet.shared();
        client = Node.shared().client();
    }

    @AfterAll
    static void disconnect() {
        client.close();
    }

    @ParameterizedTest
    @ValueSource(strings = {"a{b}c", "{x}", "open{", "empty{}", "}{", "colon:s", "dot.s"})
    void any_name_gives_the_same_keys(String name) {
        Side java = Side.JavaSide.of(fleet);
        Side rlock = new Side.NativeSide(client, fleet, "");
        new Comparison(client, fleet, "rw:" + name)
                .run(STEPS, dice -> java, rlock, thread -> Fleet.LONG_MS, READ, WRITE);
        new Comparison(client, fleet, "plain:" + name)
                .run(STEPS, dice -> java, rlock, thread -> Fleet.LONG_MS, PLAIN);
    }

    @ParameterizedTest
    @ValueSource(strings = {"wake:a{b}c", "{wake:x}", "wake:open{", "wake:empty{}", "}wake:{"})
    void any_name_gives_the_same_channel(String name) {
        wakesJava("RLOCK.ACQUIRE", name, fleet.getLock(name));
        wakesJava("RLOCK.WACQUIRE", name + "rw", fleet.getReadWriteLock(name + "rw").readLock());
    }

    private static void wakesJava(String acquire, String name, RLock lock) {
        assertNull(client.say(acquire + " " + name + " other 60000"));
        Waiter waiter = Waiter.java(lock);
        assertEquals(1L, client.say("RLOCK.RELEASE " + name + " other"));
        waiter.grantedAt();
    }
}
