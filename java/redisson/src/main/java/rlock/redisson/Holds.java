package rlock.redisson;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.function.Function;

/** Every hold of this process, and no other: a hold that is over is forgotten. */
final class Holds {
    private final ConcurrentHashMap<Hold.Id, Hold> all = new ConcurrentHashMap<>();

    /**
     * Changes one hold, while nothing else changes it. The change sends nothing and waits for nothing. If nothing is held
     * any more, the futures of its loss are cancelled, unless the change has taken them.
     */
    <T> T with(Hold.Id id, Function<Hold, T> change) {
        Object[] result = new Object[1];
        List<CompletableFuture<LostLock>> over = new ArrayList<>(0);
        all.compute(id, (same, known) -> {
            Hold hold = known == null ? new Hold() : known;
            result[0] = change.apply(hold);
            if (!hold.isHeld()) {
                over.addAll(hold.takeWatchers());
            }
            if (!hold.isIdle()) {
                return hold;
            }
            if (hold.timer != null) {
                hold.timer.cancel();
            }
            return null;
        });
        over.forEach(watcher -> watcher.cancel(false));
        @SuppressWarnings("unchecked")
        T changed = (T) result[0];
        return changed;
    }

    /** The same for a change without a result. */
    void change(Hold.Id id, Consumer<Hold> change) {
        with(id, hold -> {
            change.accept(hold);
            return null;
        });
    }

    /** All current ones. */
    Set<Hold.Id> ids() {
        return all.keySet();
    }

    /** All of one lock, with the version of each. */
    Map<Hold.Id, Long> of(String key) {
        Map<Hold.Id, Long> found = new HashMap<>();
        all.forEach((id, hold) -> {
            if (id.key.equals(key)) {
                found.put(id, with(id, Hold::version));
            }
        });
        return found;
    }
}
