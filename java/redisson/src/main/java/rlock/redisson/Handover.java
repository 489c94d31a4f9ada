package rlock.redisson;

import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * The text by which a hold passes from one process to another, the same in all languages:
 * {@code rlock1/KIND/LEASE/LIMIT/TOKENS/HOLDER/KEY[/KEY...]}.
 */
final class Handover {
    private static final String VERSION = "rlock1";
    private static final String SEVERAL = "several";
    private static final int FIRST_KEY = 6;
    private static final int KEYS_MAX = 64;
    private static final Pattern FIELD = Pattern.compile("(?:[A-Za-z0-9._~:-]|%[0-9A-F]{2})+");

    final Side side;
    /** The lease to which the next process renews the hold. */
    final long leaseMs;
    /** The limit of permits; 0 for locks. */
    final int limit;
    final List<Long> tokens;
    final String holder;
    final List<String> keys;

    Handover(Side side, long leaseMs, int limit, List<Long> tokens, String holder, List<String> keys) {
        this.side = side;
        this.leaseMs = leaseMs;
        this.limit = limit;
        this.tokens = tokens;
        this.holder = holder;
        this.keys = keys;
    }

    /** @throws IllegalArgumentException without the text, which is a secret */
    static Handover parse(String text) {
        try {
            return parse(text.split("/", -1));
        } catch (IllegalArgumentException notThat) {
            throw new IllegalArgumentException("not the text of a detached lock", notThat);
        }
    }

    private static Handover parse(String[] parts) {
        if (parts.length <= FIRST_KEY || !parts[0].equals(VERSION)) {
            throw new IllegalArgumentException("it must begin with " + VERSION + "/");
        }
        boolean areSeveral = parts[1].equals(SEVERAL);
        Side side = areSeveral ? Side.PLAIN : Side.valueOf(parts[1].toUpperCase(Locale.ROOT));
        long leaseMs = number(parts[2], Clock.FAR_MS);
        int limit = (int) number(parts[3], AbstractPermits.LIMIT_MAX);
        List<Long> tokens = parts[4].equals("-") ? List.of() : Arrays.stream(parts[4].split(",", -1))
                .map(token -> number(token, Long.MAX_VALUE)).collect(Collectors.toList());
        List<String> keys = Arrays.stream(parts).skip(FIRST_KEY).map(Handover::decoded).collect(Collectors.toList());
        boolean isRight = (areSeveral ? keys.size() <= KEYS_MAX : keys.size() == 1 && word(side).equals(parts[1]))
                && side != Side.ONCE && leaseMs > 0 && side == Side.PERMIT == limit > 0
                && (tokens.isEmpty() || tokens.size() == keys.size())
                && keys.stream().distinct().count() == keys.size();
        if (!isRight) {
            throw new IllegalArgumentException("its fields contradict each other");
        }
        return new Handover(side, leaseMs, limit, tokens, decoded(parts[5]), keys);
    }

    private static String word(Side side) {
        return side.name().toLowerCase(Locale.ROOT);
    }

    private static long number(String digits, long max) {
        if (!digits.matches("[0-9]+") || Long.parseLong(digits) > max) {
            throw new IllegalArgumentException("a number is not one");
        }
        return Long.parseLong(digits);
    }

    private static String decoded(String field) {
        if (!FIELD.matcher(field).matches()) {
            throw new IllegalArgumentException("a name is empty or has a character that it cannot have");
        }
        String name = URLDecoder.decode(field, StandardCharsets.UTF_8);
        if (name.indexOf('\uFFFD') >= 0) {
            throw new IllegalArgumentException("a name is not UTF-8, which is all that Redisson has");
        }
        return name;
    }

    /** Encodes as in an address, except for four characters. */
    private static String encoded(String field) {
        return URLEncoder.encode(field, StandardCharsets.UTF_8)
                .replace("+", "%20").replace("*", "%2A").replace("%7E", "~").replace("%3A", ":");
    }

    @Override
    public String toString() {
        String numbers = tokens.isEmpty() ? "-" : tokens.stream().map(String::valueOf).collect(Collectors.joining(","));
        String names = keys.stream().map(Handover::encoded).collect(Collectors.joining("/"));
        return String.join("/", VERSION, keys.size() > 1 ? SEVERAL : word(side), "" + leaseMs, "" + limit, numbers,
                encoded(holder), names);
    }
}
