package rlock;

import java.util.Arrays;

/** Which Redisson is under test, by what its versions can do. */
final class Version {
    private static final int[] NUMBERS = Arrays.stream(System.getProperty("redisson.version").split("\\."))
            .mapToInt(Integer::parseInt).toArray();

    /** A retried unlock finds the reply of its first try. */
    static final boolean HAS_UNLOCK_LATCH = from(3, 24);

    static final boolean HAS_NAME_MAPPER = from(3, 16);

    /** Subscribes by SSUBSCRIBE where a cluster has it. */
    static final boolean HAS_SHARDED_PUBSUB = from(3, 22);

    /** The watchdog of one reader renews only that client's read holds, not those of all. */
    static final boolean RENEWS_ONLY_ITS_OWN_READS = from(4, 0);

    /** From 3.42 or so until 4.0 its watchdog fails at a reader that has entered twice. */
    static final boolean KEEPS_READS_ALIVE_THAT_ENTERED_TWICE = from(4, 0) || !from(3, 42);

    private Version() {
    }

    private static boolean from(int major, int minor) {
        return NUMBERS[0] > major || NUMBERS[0] == major && NUMBERS[1] >= minor;
    }
}
