package rlock;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Everything that a lock has stored: its hash, the leases of its read holds, its fencing counter. Each key with its name, in
 * which the lock's own name is replaced by NAME, its type and value byte for byte, and when it expires.
 *
 * <p>The unlock latch is left out: Redisson deletes it some time after the unlock, and only Redisson has one.
 */
final class Snapshot {
    private final Map<String, String> values = new TreeMap<>();
    private final Map<String, Long> expiries = new TreeMap<>();

    Map<String, String> values() {
        return values;
    }

    Map<String, Long> expiries() {
        return expiries;
    }

    static Snapshot of(Native client, String name) {
        Snapshot snapshot = new Snapshot();
        for (Object found : (List<?>) client.say("KEYS *")) {
            String key = (String) found;
            if (belongs(key, name) && !key.startsWith("redisson_unlock_latch:")) {
                snapshot.add(client, key, key.replace(name, "NAME"));
            }
        }
        return snapshot;
    }

    private static boolean belongs(String key, String name) {
        return key.equals(name) || key.contains("{" + name + "}") || name.contains("{") && key.contains(name);
    }

    private void add(Native client, String key, String label) {
        long expiry = (Long) client.run("PEXPIRETIME", key);
        String type = (String) client.run("TYPE", key);
        Object value = type.equals("none") ? null
                : type.equals("hash") ? sorted((List<?>) client.run("HGETALL", key))
                : client.run(type.equals("string") ? "GET" : "DUMP", key);
        if (value != null) {
            values.put(label, type + " " + value);
            expiries.put(label, expiry);
        }
    }

    private static Map<Object, Object> sorted(List<?> flat) {
        Map<Object, Object> fields = new TreeMap<>();
        for (int i = 0; i < flat.size(); i += 2) {
            fields.put(flat.get(i), flat.get(i + 1));
        }
        return fields;
    }
}
