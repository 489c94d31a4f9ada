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

    /** What a caller gets: the answer, or the work to do. */
    static final class Turn {
        final byte[] answer;
        final Leader leader;

        private Turn(byte[] answer, Leader leader) {
            this.answer = answer;
            this.leader = leader;
        }
    }

    /** @param waitMs below 0: for ever */
    CompletableFuture<Turn> board(String name, String key, long waitMs, long keepMs) {
        return new Caller(name, key, waitMs, keepMs).board();
    }

    private final class Caller {
        private final String name;
        private final String key;
        private final long waitMs;
        private final long keepMs;
        private final long begin = System.nanoTime();
        private final CompletableFuture<Turn> turn = new CompletableFuture<>();

        Caller(String name, String key, long waitMs, long keepMs) {
            this.name = name;
            this.key = key;
            this.waitMs = waitMs;
            this.keepMs = keepMs;
        }

        CompletableFuture<Turn> board() {
            if (waitMs == 0) {
                // A flight that waits may take longer than this caller has.
                ask(new CompletableFuture<>());
                return turn;
            }
            boardNext();
            return turn;
        }

        private long leftMs() {
            return waitMs <= 0 ? waitMs
                    : Math.max(1, waitMs - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin));
        }

        private void isTooLate() {
            turn.completeExceptionally(new LockBusyException(name, Duration.ofMillis(waitMs)));
        }

        private void boardNext() {
            CompletableFuture<byte[]> own = new CompletableFuture<>();
            CompletableFuture<byte[]> other = turn.isDone() ? null : all.putIfAbsent(key, own);
            if (turn.isDone()) {
                all.remove(key, own);
            } else if (other == null) {
                ask(own);
            } else {
                if (waitMs > 0) {
                    Clock.Timer limit = server.after(leftMs(), this::isTooLate);
                    CompletableFuture.anyOf(turn, other).whenComplete((any, error) -> limit.cancel());
                }
                other.whenComplete((answer, error) -> {
                    if (error != null) {
                        turn.completeExceptionally(error);
                    } else if (answer != null) {
                        turn.complete(new Turn(answer, null));
                    } else {
                        boardNext();
                    }
                });
            }
        }

        private void ask(CompletableFuture<byte[]> flight) {
            Hold.Id id = Hold.Id.of(Side.PLAIN, key, server, NativeHeld.number(), name);
            CompletableFuture<Turn> asking = Attempt.begin(server, locks, List.of(id),
                    Attempt.Terms.once(leftMs(), new Hold.Lease(server.watchdogMs(), true)), grant -> grant == null ? null
                            : new Turn(grant.answer, grant.answer != null ? null : new Leader(id, flight, keepMs)));
            turn.whenComplete((any, error) -> asking.cancel(false));
            asking.whenComplete((got, error) -> asked(flight, got, error));
        }

        private void asked(CompletableFuture<byte[]> flight, Turn got, Throwable error) {
            if (error != null) {
                Throwable cause = RlockMissingException.of(Server.cause(error));
                // The server refuses the others as well. Without a reply in time this caller alone gives up.
                boolean isOfAll = !turn.isDone() && (waitMs < 0 || Server.isReply(error));
                turn.completeExceptionally(cause);
                all.remove(key, flight);
                if (isOfAll) {
                    flight.completeExceptionally(cause);
                } else {
                    flight.complete(null);
                }
            } else if (got == null) {
                isTooLate();
                land(key, flight, null);
            } else if (got.leader == null) {
                turn.complete(got);
                land(key, flight, got.answer);
            } else if (!turn.complete(got)) {
                got.leader.end(null);
            }
        }
    }

    private void land(String key, CompletableFuture<byte[]> flight, byte[] answer) {
        all.remove(key, flight);
        flight.complete(answer);
    }

    /** The caller that does the work. */
    final class Leader implements Guard.Subject {
        private final Hold.Id id;
        private final CompletableFuture<byte[]> flight;
        private final long keepMs;
        private byte[] value;
        private RuntimeException refusal;

        private Leader(Hold.Id id, CompletableFuture<byte[]> flight, long keepMs) {
            this.id = id;
            this.flight = flight;
            this.keepMs = keepMs;
        }

        @Override
        public String name() {
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
            return end.whenComplete((done, error) -> land(id.key, flight, error == null && answer != null ? answer.clone() : null));
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

        /** In this thread. */
        byte[] call(Callable<byte[]> work) throws Exception {
            byte[] result = Guard.call(this, () -> {
                value = Objects.requireNonNull(work.call(), "the work's value");
                return value;
            });
            if (refusal != null) {
                throw refusal;
            }
            return result;
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
                end(lost == null && thrown == null ? done : null)
                        .whenComplete((nothing, refused) -> tell(result, done, lost, thrown, refused));
            });
        }

        private CompletableFuture<byte[]> running(Supplier<? extends CompletionStage<byte[]>> work) {
            try {
                return work.get().toCompletableFuture();
            } catch (RuntimeException e) {
                return CompletableFuture.failedFuture(e);
            }
        }

        private void tell(CompletableFuture<byte[]> result, byte[] done, LostLock lost, Throwable thrown, Throwable error) {
            Throwable cause = error == null ? null : Server.cause(error);
            if (lost != null) {
                result.completeExceptionally(new LockLostException(lost));
            } else if (thrown != null) {
                result.completeExceptionally(Server.cause(thrown));
            } else if (cause instanceof IllegalMonitorStateException) {
                result.completeExceptionally(cause.getCause() instanceof LockLostException ? cause.getCause() : cause);
            } else if (cause != null && Server.isReply(cause)) {
                result.completeExceptionally(cause);
            } else {
                if (cause != null) {
                    log.warn("{}: whether the answer is stored is in doubt: {}", id.name, cause.getMessage());
                }
                result.complete(done);
            }
        }
    }
}
