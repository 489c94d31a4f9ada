package rlock.redisson;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.redisson.api.RedissonClient;

/** What the locks of one wrapped client share: its holds, its watchdog, and a session for each node. */
final class Locks {
    /** At which distance what may have been left behind is given back, until that succeeds or its lease has ended. */
    private static final long GIVE_BACK_AGAIN_MS = 500;

    final Holds holds = new Holds();
    final Crowds crowds = new Crowds();
    final Sessions sessions;
    final Watchdog watchdog;
    private final Server server;
    private volatile RedissonClient client;

    Locks(Server server) {
        this.server = server;
        sessions = new Sessions(server);
        watchdog = new Watchdog(server, holds, this::lost);
    }

    /** As whose a lost lock is told. */
    void belongTo(RedissonClient wrapped) {
        client = wrapped;
    }

    private void lost(Hold.Id id, Throwable cause) {
        Losses.tell(new LostLock(client, id.name, id.thread, cause), server.forListeners());
    }

    /** One unlock. Whether this holder held anything. */
    CompletableFuture<Boolean> release(Server by, Hold.Id id) {
        Request request = holds.with(id, hold -> hold.releaseBegins(id));
        return send(by, id, request, error -> false).handle((reply, error) -> {
            if (error != null) {
                releaseFailed(id, error);
                throw new CompletionException(Server.cause(error));
            }
            holds.with(id, hold -> {
                if (reply == null) {
                    hold.releasedNothing();
                } else {
                    hold.released();
                }
                return null;
            });
            return reply != null;
        });
    }

    /**
     * By the shortcut of those who wait, if there is one: then others are waiting for it.
     *
     * @param isSentAgain after which errors it is, by Redisson's own way
     */
    CompletableFuture<Object> send(Server by, Hold.Id id, Request request, Predicate<Throwable> isSentAgain) {
        Session session = sessions.openAt(by.node(id.key));
        CompletableFuture<Object> quick = session == null ? null : session.shortcut(request);
        return quick == null ? by.once(id.key, request) : quick.handle((reply, error) ->
                error != null && (Server.isRedirection(error) || isSentAgain.test(error))
                        ? by.once(id.key, request) : quick).thenCompose(answer -> answer);
    }

    private void releaseFailed(Hold.Id id, Throwable error) {
        boolean isUnanswered = Server.isUnanswered(error);
        holds.with(id, hold -> {
            if (isUnanswered) {
                hold.releaseUnanswered();
            } else {
                hold.releaseRefused();
            }
            return null;
        });
        giveBackWhatIsLeftBehind(id, server.watchdogMs());
    }

    /** What a request may have got that was not answered, if this holder has nothing else there. */
    void giveBackWhatIsLeftBehind(Hold.Id id, long leaseMs) {
        giveBack(id, System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(leaseMs));
    }

    /** All of it: that can be repeated, and is right however many of the requests were executed. */
    private void giveBack(Hold.Id id, long until) {
        boolean begins = holds.with(id, hold -> {
            boolean isLeft = hold.isLeftBehind();
            if (isLeft) {
                hold.settlingBegins();
            }
            return isLeft;
        });
        if (!begins) {
            return;
        }
        server.once(id.key, Request.release(id, true, 0)).whenComplete((reply, error) -> {
            boolean isRefused = error != null && Server.isReply(error, "WRONG", "ERR", "NOPERM");
            boolean goesOn = error != null && !isRefused && System.nanoTime() - until < 0 && !server.isShuttingDown();
            holds.with(id, hold -> {
                if (!goesOn) {
                    hold.isGivenBack();
                }
                return hold.settlingEnds();
            }).complete(null);
            if (goesOn) {
                server.after(GIVE_BACK_AGAIN_MS, () -> giveBack(id, until));
            }
        });
    }
}
