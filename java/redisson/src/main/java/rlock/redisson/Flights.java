package rlock.redisson;

import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The requests for answers, one for each key: the <i>flight</i> of that key.
 *
 * <p>The first caller of this process asks the server, and the others wait for its outcome, each with its own time limit. An
 * answer goes to all of them. If the first caller leads but has no answer in the end, the next caller begins a flight of its
 * own.
 */
final class Flights {
    private static final Logger log = LoggerFactory.getLogger(RedissonLocks.class);

    private final Server server;
    private final Locks locks;

    /** Each completes with the answer, or with null if there is none. */
    private final ConcurrentHashMap<String, CompletableFuture<byte[]>> all = new ConcurrentHashMap<>();

    Flights(Locks locks) {
        this.locks = locks;
        server = locks.server;
    }

    /** @param waitMs below 0: forever */
    Caller board(Hold.Id id, long waitMs, long keepMs) {
        Caller caller = new Caller(id, waitMs, keepMs);
        if (waitMs == 0) {
            // A flight that waits may take longer than this caller has.
            caller.ask(new CompletableFuture<>());
        } else {
            caller.board();
        }
        return caller;
    }

    final class Caller implements Guard.Subject {
        /** Completes with the answer, or with null if this caller has to work. */
        final CompletableFuture<byte[]> turn = new CompletableFuture<>();
        private final Hold.Id id;
        private final long waitMs;
        private final long keepMs;
        private final long begin = System.nanoTime();
        /** The flight of this caller, once it asks the server. */
        private CompletableFuture<byte[]> flight;
        private byte[] value;
        private RuntimeException refusal;

        private Caller(Hold.Id id, long waitMs, long keepMs) {
            this.id = id;
            this.waitMs = waitMs;
            this.keepMs = keepMs;
        }

        private long leftMs() {
            return waitMs <= 0 ? waitMs
                    : Math.max(1, waitMs - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin));
        }

        private void isTooLate() {
            turn.completeExceptionally(new LockBusyException(id.name, Duration.ofMillis(waitMs)));
        }

        private void board() {
            CompletableFuture<byte[]> own = new CompletableFuture<>();
            CompletableFuture<byte[]> other = all.putIfAbsent(id.key, own);
            if (other == null) {
                ask(own);
                return;
            }
            if (waitMs > 0) {
                Clock.Timer limit = server.after(leftMs(), this::isTooLate);
                CompletableFuture.anyOf(turn, other).whenComplete((any, error) -> limit.cancel());
            }
            other.whenComplete((answer, error) -> {
                if (error != null) {
                    turn.completeExceptionally(error);
                } else if (answer != null) {
                    turn.complete(answer);
                } else if (!turn.isDone()) {
                    board();
                }
            });
        }

        private void ask(CompletableFuture<byte[]> own) {
            flight = own;
            CompletableFuture<Grant> asking = Attempt.begin(server, locks, List.of(id),
                    new Attempt.Terms(leftMs(), new Hold.Lease(server.watchdogMs(), true), false, 0), grant -> grant);
            turn.whenComplete((any, error) -> asking.cancel(false));
            asking.whenComplete(this::asked);
        }

        private void asked(Grant grant, Throwable error) {
            if (error != null) {
                Throwable cause = RlockMissingException.of(Server.cause(error));
                // A refusal is for the other callers, too. If no reply came in time, only this caller gives up.
                boolean isOfAll = !turn.isDone() && (waitMs < 0 || Server.isReply(error));
                turn.completeExceptionally(cause);
                land(null, isOfAll ? cause : null);
            } else if (grant == null) {
                isTooLate();
                land(null, null);
            } else if (grant.answer != null) {
                turn.complete(grant.answer);
                land(grant.answer, null);
            } else if (!turn.complete(null)) {
                end(null);
            }
        }

        private void land(byte[] answer, Throwable error) {
            all.remove(id.key, flight);
            if (error == null) {
                flight.complete(answer);
            } else {
                flight.completeExceptionally(error);
            }
        }

        @Override
        public String getName() {
            return id.name;
        }

        @Override
        public CompletableFuture<LostLock> loss() {
            return locks.loss(id);
        }

        @Override
        public LostLock lossByNow() {
            return locks.watchdog.lossByNow(id);
        }

        /** @param answer null: there is none */
        private CompletableFuture<Void> end(byte[] answer) {
            CompletableFuture<Void> end = answer == null ? locks.end(server, id) : locks.answer(id, answer, keepMs);
            return end.whenComplete((done, error) -> land(error == null && answer != null ? answer.clone() : null, null));
        }

        @Override
        public void end(boolean isDone) {
            try {
                NativeLock.getUnwrapped(server, end(isDone ? value : null));
            } catch (RuntimeException e) {
                if (!isDone || !Server.isReply(e)) {
                    throw e;
                }
                refusal = e;
            }
        }

        /** The work, in this thread. */
        byte[] call(Callable<byte[]> work) throws Exception {
            Guard.call(this, () -> value = Objects.requireNonNull(work.call(), "the work's value"));
            if (refusal != null) {
                throw refusal;
            }
            return value;
        }

        /** @param result which the caller may cancel */
        void begin(Supplier<? extends CompletionStage<byte[]>> work, CompletableFuture<byte[]> result) {
            CompletableFuture<LostLock> loss = loss();
            CompletableFuture<byte[]> running = result.isDone() || loss.isDone() ? new CompletableFuture<>() : running(work);
            loss.thenAcceptAsync(lost -> running.cancel(true), server.forListeners());
            result.whenComplete((any, error) -> running.cancel(true));
            running.whenComplete((done, error) -> {
                Throwable thrown = done != null || error != null ? error : new NullPointerException("the work's value");
                LostLock lost = loss.isDone() && !loss.isCompletedExceptionally() ? loss.join() : lossByNow();
                loss.cancel(false);
                Throwable failure = lost != null ? new LockLostException(lost) : Server.cause(thrown);
                end(failure == null ? done : null).whenComplete((nothing, refused) -> {
                    Throwable outcome = failure != null ? failure : certain(Server.cause(refused));
                    if (outcome == null) {
                        result.complete(done);
                    } else {
                        result.completeExceptionally(outcome);
                    }
                });
            });
        }

        private CompletableFuture<byte[]> running(Supplier<? extends CompletionStage<byte[]>> work) {
            try {
                return work.get().toCompletableFuture();
            } catch (RuntimeException e) {
                return CompletableFuture.failedFuture(e);
            }
        }

        /** @return null if the answer may be stored */
        private Throwable certain(Throwable error) {
            if (error instanceof IllegalMonitorStateException) {
                return error.getCause() instanceof LockLostException ? error.getCause() : error;
            } else if (error == null || Server.isReply(error)) {
                return error;
            }
            log.warn("{}: whether the answer is stored is in doubt: {}", id.name, error.getMessage());
            return null;
        }
    }
}
