package rlock.redisson;

import java.util.List;
import java.util.concurrent.CompletableFuture;

/** One wait of a session, and what becomes of it. */
final class Ticket {
    final Session session;
    final String name;

    /** Completed once. */
    final CompletableFuture<Event> event = new CompletableFuture<>();

    Ticket(Session session, String name) {
        this.session = session;
        this.name = name;
    }

    /** Its events are ignored from now on. */
    void close() {
        session.forget(this);
    }

    enum Outcome { GRANTED, ANSWERED, TIMEOUT, ERROR, SESSION_OVER }

    static final class Event {
        final Outcome outcome;
        /** The fencing token, or the server's error line. */
        final Object value;

        /** When the granted lease ends, by this process's clock; by the server's clock it ends no earlier. */
        final long until;

        Event(Outcome outcome, Object value, long until) {
            this.outcome = outcome;
            this.value = value;
            this.until = until;
        }

        /** @param askedAt when the request was sent that this event answers: leases count from then on */
        static Event of(List<?> event, long askedAt) {
            Object value = event.get(3);
            switch ((String) event.get(2)) {
                case "granted":
                    long endsInMs = ((Number) event.get(4)).longValue();
                    return new Event(Outcome.GRANTED, value, askedAt + Clock.ns(endsInMs));
                case "answered":
                    return new Event(Outcome.ANSWERED, null, 0);
                case "timeout":
                    return new Event(Outcome.TIMEOUT, null, 0);
                default:
                    return new Event(Outcome.ERROR, value, 0);
            }
        }
    }
}
