package rlock;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.function.BiFunction;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Either side of the fleet: it acquires and releases holds in the name of any thread of one Redisson client. */
interface Side {
    enum Kind {
        PLAIN("RLOCK.ACQUIRE", ""), READ("RLOCK.RACQUIRE", " READ"), WRITE("RLOCK.WACQUIRE", " WRITE");

        final String acquire;
        final String side;

        Kind(String acquire, String side) {
            this.acquire = acquire;
            this.side = side;
        }

        RLock of(RedissonClient client, String name) {
            return this == PLAIN ? client.getLock(name)
                    : this == READ ? client.getReadWriteLock(name).readLock() : client.getReadWriteLock(name).writeLock();
        }
    }

    /** Acquires without waiting. Returns whether it was granted. */
    boolean take(String name, Kind kind, long thread, long leaseMs);

    /** Releases one hold. Returns whether there was one. If holds are left, Redisson restarts the lease that was last taken. */
    boolean give(String name, Kind kind, long thread, long leaseMs);

    /** RLOCK commands. */
    final class NativeSide implements Side {
        private final Native connection;
        private final RedissonClient identity;
        private final String option;

        NativeSide(Native connection, RedissonClient identity, String option) {
            this.connection = connection;
            this.identity = identity;
            this.option = option;
        }

        @Override
        public boolean take(String name, Kind kind, long thread, long leaseMs) {
            Object reply = connection.say(kind.acquire + " " + name + " " + holder(thread) + " " + leaseMs + option);
            return reply == null || reply instanceof List && ((List<?>) reply).get(0) == null;
        }

        @Override
        public boolean give(String name, Kind kind, long thread, long leaseMs) {
            String lease = kind == Kind.READ ? "" : " LEASE " + leaseMs;
            return connection.say("RLOCK.RELEASE " + name + " " + holder(thread) + kind.side + lease) != null;
        }

        private String holder(long thread) {
            return Fleet.holder(identity, thread);
        }
    }

    /** Redisson, with an RLock object for each thread: each remembers the lease that it was last taken with. */
    final class JavaSide implements Side {
        private final Map<String, RLock> locks = new HashMap<>();
        private final BiFunction<String, Kind, RLock> open;

        JavaSide(BiFunction<String, Kind, RLock> open) {
            this.open = open;
        }

        static JavaSide of(RedissonClient client) {
            return new JavaSide((name, kind) -> kind.of(client, name));
        }

        @Override
        public boolean take(String name, Kind kind, long thread, long leaseMs) {
            return Fleet.tryLock(lock(name, kind, thread), leaseMs, thread);
        }

        @Override
        public boolean give(String name, Kind kind, long thread, long leaseMs) {
            try {
                Fleet.unlock(lock(name, kind, thread), thread);
                return true;
            } catch (CompletionException e) {
                if (e.getCause() instanceof IllegalMonitorStateException) {
                    return false;
                }
                throw e;
            }
        }

        private RLock lock(String name, Kind kind, long thread) {
            return locks.computeIfAbsent(name + kind + thread, key -> open.apply(name, kind));
        }
    }
}
