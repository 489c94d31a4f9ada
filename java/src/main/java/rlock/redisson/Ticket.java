package rlock.redisson;

import java.util.concurrent.CompletableFuture;

/** One wait of a session, and what becomes of it. */
final class Ticket {
    final Session session;
    final String name;

    /** Completed once. */
    final CompletableFuture<Event> told = new CompletableFuture<>();

    Ticket(Session session, String name) {
        this.session = session;
        this.name = name;
    }

    /** Nobody listens to it any more. */
    void close() {
        session.forget(this);
    }

    enum Outcome { GRANTED, TIMEOUT, ERROR, SESSION_OVER }

    static final class Event {
        final Outcome outcome;
        /** The fencing token, or the server's error line. */
        final Object value;

        Event(Outcome outcome, Object value) {
            this.outcome = outcome;
            this.value = value;
        }

        static Event of(String outcome, Object value) {
            switch (outcome) {
                case "granted":
                    return new Event(Outcome.GRANTED, value);
                case "timeout":
                    return new Event(Outcome.TIMEOUT, null);
                default:
                    return new Event(Outcome.ERROR, value);
            }
        }
    }
}
