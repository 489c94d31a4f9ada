package rlock.redisson;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Renewals that count only once a replica has them: what falls due at one node within a short time is sent together,
 * with one WAIT behind all of it.
 *
 * <p>WAIT confirms what was sent before it on its connection, and whatever is sent behind it has to wait for it. So the
 * rounds at a node have a connection of their own, and what falls due while WAIT is under way is in the next
 * round. Replicas that are slow cost a server one WAIT at a time, however many locks there are.
 */
final class Rounds {
    /** The maximum of rounds while a lease lasts. If replicas answer, a renewal waits at most one such part for its round. */
    private static final int ROUNDS_IN_A_LEASE = 30;

    /** A confirmation may take a sixth of a lease, which is renewed at its third: later leaves no time for a second try. */
    private static final int WAITS_IN_A_LEASE = 6;

    /** How a renewal is sent. */
    interface Way {
        /** @return whether it was held */
        CompletableFuture<Boolean> renew(Hold.Id id, long leaseMs);
    }

    interface Renewal {
        /** @return whether anything was sent: there may be nothing to renew any more */
        boolean send(Way way);
    }

    private final Server server;
    private final ConcurrentHashMap<Server.Node, Round> all = new ConcurrentHashMap<>();

    Rounds(Server server) {
        this.server = server;
    }

    void join(Server.Node node, Renewal renewal) {
        all.keySet().removeIf(known -> !server.listensTo(known));
        all.computeIfAbsent(node, Round::new).join(renewal);
    }

    private final class Round {
        private final Server.Node node;
        private List<Renewal> due = new ArrayList<>();
        private boolean isUnderWay;

        /** Only the round that is under way uses it. */
        private Server.Line line;

        Round(Server.Node node) {
            this.node = node;
        }

        synchronized void join(Renewal renewal) {
            due.add(renewal);
            if (!isUnderWay) {
                isUnderWay = true;
                schedule();
            }
        }

        private void schedule() {
            server.after(Math.max(1, server.watchdogMs() / ROUNDS_IN_A_LEASE), this::begin);
        }

        private synchronized List<Renewal> whatIsDue() {
            List<Renewal> all = due;
            due = new ArrayList<>();
            return all;
        }

        private synchronized void end() {
            isUnderWay = !due.isEmpty();
            if (isUnderWay) {
                schedule();
            }
        }

        private void begin() {
            CompletableFuture.completedFuture(node).thenCompose(server::replicas).thenCompose(replicas -> replicas == 0
                    ? unconfirmed(server::renew)
                    : line().thenCompose(open -> confirmed(open, replicas))).whenComplete((done, error) -> {
                        if (error != null) {
                            close();
                            unconfirmed((id, leaseMs) -> CompletableFuture.failedFuture(error));
                        }
                        end();
                    });
        }

        private CompletableFuture<Void> unconfirmed(Way way) {
            whatIsDue().forEach(renewal -> renewal.send(way));
            return CompletableFuture.completedFuture(null);
        }

        private CompletableFuture<Server.Line> line() {
            if (line != null && line.isOpen()) {
                return CompletableFuture.completedFuture(line);
            }
            close();
            return server.connect(node, server.timeoutMs()).thenApply(opened -> line = opened);
        }

        private void close() {
            if (line != null) {
                line.close();
                line = null;
            }
        }

        /** The reply that a lock is not held needs no replica to confirm it. */
        private CompletableFuture<Void> confirmed(Server.Line by, int replicas) {
            CompletableFuture<Void> confirmed = new CompletableFuture<>();
            Way way = (id, leaseMs) -> by.send(Request.renew(id, leaseMs), server.timeoutMs()).handle((reply, error) ->
                    error != null && Server.isRedirection(error) ? server.renewReplicated(id, leaseMs)
                            : error != null ? CompletableFuture.<Boolean>failedFuture(error)
                            : Server.isRenewed(reply) ? confirmed.thenApply(done -> true)
                            : CompletableFuture.completedFuture(false)).thenCompose(answer -> answer);
            boolean isAnythingSent = false;
            for (Renewal renewal : whatIsDue()) {
                isAnythingSent |= renewal.send(way);
            }
            if (!isAnythingSent) {
                return CompletableFuture.completedFuture(null);
            }
            long limitMs = Math.max(1, Math.min(server.syncMs(), server.watchdogMs() / WAITS_IN_A_LEASE));
            return server.confirmed(by, node, replicas, limitMs).handle((done, error) -> {
                if (error == null) {
                    confirmed.complete(null);
                } else {
                    confirmed.completeExceptionally(Server.cause(error));
                }
                // A negative answer is an answer, and says nothing against the connection.
                return error == null || Server.isNotReplicated(error)
                        ? CompletableFuture.<Void>completedFuture(null) : CompletableFuture.<Void>failedFuture(error);
            }).thenCompose(end -> end);
        }
    }
}
