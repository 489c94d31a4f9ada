package rlock.redisson;

import java.util.ArrayList;
import java.util.List;

/** The RLOCK commands as they are sent: a name and its arguments. */
final class Request {
    final String name;
    final List<Object> arguments = new ArrayList<>();

    /** Whether a bulk string in the reply is bytes, not text. */
    boolean isBinary;

    private Request(String name, Object... arguments) {
        this.name = name;
        with(arguments);
    }

    private Request with(Object... more) {
        arguments.addAll(List.of(more));
        return this;
    }

    /** @param ids of one holder; several only of plain locks, which are taken all or none */
    static Request acquire(List<Hold.Id> ids, long leaseMs, Attempt.Terms terms) {
        Hold.Id first = ids.get(0);
        Request request = ids.size() == 1 ? new Request(first.side.acquire) : new Request("RLOCK.MACQUIRE", ids.size());
        request.isBinary = first.side == Side.ONCE;
        ids.forEach(id -> request.with(id.key));
        request.with(first.holder, leaseMs);
        if (terms.limit > 0) {
            request.with("LIMIT", terms.limit);
        }
        return terms.isFenced ? request.with("FENCED") : request;
    }

    /** @param waitMs 0: forever */
    Request waitingFor(long waitMs, String session, String ticket) {
        return with("WAIT", waitMs, "SESSION", session, ticket);
    }

    /** @param leaseMs the lease restarts with this time for the remaining holds; 0: it goes on */
    static Request release(Hold.Id id, boolean all, long leaseMs) {
        Request request = new Request("RLOCK.RELEASE", id.key, id.holder);
        if (id.side.word != null) {
            request.with(id.side.word);
        }
        if (all) {
            return request.with("ALL");
        }
        return leaseMs > 0 && id.side.restartsItsLease() ? request.with("LEASE", leaseMs) : request;
    }

    static Request renew(Hold.Id id, long leaseMs) {
        return new Request("RLOCK.RENEW", id.key, id.holder, leaseMs);
    }

    static Request answer(Hold.Id id, byte[] value, long keepMs) {
        return new Request("RLOCK.ANSWER", id.key, id.holder, value, "KEEP", keepMs);
    }

    /** Removes the answer of a key. */
    static Request forget(String answerKey) {
        return new Request("DEL", answerKey);
    }

    /** The key of an answer, in the slot of its lock's key. */
    static String answerKey(String key) {
        return key.contains("{") ? "rlock_answer:" + key : "rlock_answer:{" + key + "}";
    }

    static Request breakOpen(String key) {
        return new Request("RLOCK.BREAK", key);
    }

    /** Asks how many replicas have what was sent before, and waits at most this long for more of them. */
    static Request waitFor(int replicas, long limitMs) {
        return new Request("WAIT", replicas, limitMs);
    }

    static Request events(String session, long acknowledged, long ttlMs) {
        Request request = new Request("RLOCK.EVENTS", session, "TTL", ttlMs);
        return acknowledged > 0 ? request.with("ACK", acknowledged) : request;
    }

    /** Waits as long as the server allows. */
    Request waiting() {
        return with("WAIT", 0);
    }

    static Request cancel(String session, Object... tickets) {
        return new Request("RLOCK.CANCEL", session).with(tickets);
    }
}
