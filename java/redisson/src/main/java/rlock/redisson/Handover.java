package rlock.redisson;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
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
    private static final int FIRST_KEY = 6;
    private static final int KEYS_MAX = 64;
    private static final String PLAIN_CHARACTERS = "-._~:";
    private static final Pattern FIELD = Pattern.compile("(?:[A-Za-z0-9._~:-]|%[0-9A-F]{2})+");

    enum Kind {
        PLAIN(Side.PLAIN), READ(Side.READ), WRITE(Side.WRITE), PERMIT(Side.PERMIT), SEVERAL(Side.PLAIN);

        final Side side;

        Kind(Side side) {
            this.side = side;
        }

        String word() {
            return name().toLowerCase(Locale.ROOT);
        }

        static Kind of(Side side, int locks) {
            return locks > 1 ? SEVERAL : valueOf(side.name());
        }
    }

    final Kind kind;
    /** To which the next process renews the hold. */
    final long leaseMs;
    /** Of permits; 0 of locks. */
    final int limit;
    final List<Long> tokens;
    final String holder;
    final List<String> keys;

    Handover(Kind kind, long leaseMs, int limit, List<Long> tokens, String holder, List<String> keys) {
        this.kind = kind;
        this.leaseMs = leaseMs;
        this.limit = limit;
        this.tokens = tokens;
        this.holder = holder;
        this.keys = keys;
    }

    /** @throws IllegalArgumentException without the text, which is a secret */
    static Handover parse(String text) {
        String[] parts = text.split("/", -1);
        try {
            if (parts.length > FIRST_KEY && parts[0].equals(VERSION)) {
                return parse(parts);
            }
        } catch (IllegalArgumentException notThat) {
            throw new IllegalArgumentException("not the text of a detached lock", notThat);
        }
        throw new IllegalArgumentException("not the text of a detached lock: it must begin with " + VERSION + "/");
    }

    private static Handover parse(String[] parts) {
        Kind kind = Kind.valueOf(parts[1].toUpperCase(Locale.ROOT));
        long leaseMs = number(parts[2], Clock.FAR_MS);
        int limit = (int) number(parts[3], AbstractPermits.LIMIT_MAX);
        List<Long> tokens = new ArrayList<>();
        if (!parts[4].equals("-")) {
            for (String token : parts[4].split(",", -1)) {
                tokens.add(number(token, Long.MAX_VALUE));
            }
        }
        List<String> keys = new ArrayList<>();
        for (int i = FIRST_KEY; i < parts.length; i++) {
            keys.add(decoded(parts[i]));
        }
        boolean isRight = kind.word().equals(parts[1]) && leaseMs > 0 && kind == Kind.PERMIT == limit > 0
                && (tokens.isEmpty() || tokens.size() == keys.size())
                && (kind == Kind.SEVERAL ? keys.size() <= KEYS_MAX : keys.size() == 1)
                && keys.stream().distinct().count() == keys.size();
        if (!isRight) {
            throw new IllegalArgumentException("its fields contradict each other");
        }
        return new Handover(kind, leaseMs, limit, tokens, decoded(parts[5]), keys);
    }

    private static long number(String digits, long max) {
        if (digits.isEmpty() || !digits.chars().allMatch(c -> c >= '0' && c <= '9') || Long.parseLong(digits) > max) {
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

    private static String encoded(String field) {
        StringBuilder text = new StringBuilder();
        for (byte b : field.getBytes(StandardCharsets.UTF_8)) {
            text.append(isPlain((char) (b & 0xFF)) ? "" + (char) b : String.format("%%%02X", b));
        }
        return text.toString();
    }

    private static boolean isPlain(char c) {
        return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || PLAIN_CHARACTERS.indexOf(c) >= 0;
    }

    @Override
    public String toString() {
        String numbers = tokens.isEmpty() ? "-" : tokens.stream().map(String::valueOf).collect(Collectors.joining(","));
        String names = keys.stream().map(Handover::encoded).collect(Collectors.joining("/"));
        return String.join("/", VERSION, kind.word(), "" + leaseMs, "" + limit, numbers, encoded(holder), names);
    }
}
