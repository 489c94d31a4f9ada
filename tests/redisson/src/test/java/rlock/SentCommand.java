package rlock;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The very words of a command that Redisson sent, as MONITOR shows them. */
final class SentCommand {
    private static final Pattern WORD = Pattern.compile("\"((?:[^\"\\\\]|\\\\.)*)\"");

    private SentCommand() {
    }

    /** Runs an action, and returns the first script call that was sent meanwhile and that mentions a text. */
    static Object[] scriptDuring(Node node, String text, Runnable action) {
        try (Native monitor = node.client(); Native client = node.client()) {
            monitor.say("MONITOR");
            action.run();
            client.say("ECHO end-of-action");
            Object[] found = null;
            for (String line = monitor.line(); !line.contains("end-of-action"); line = monitor.line()) {
                if (found == null && line.contains("\"EVAL") && line.contains(text)) {
                    found = words(line);
                }
            }
            return found;
        }
    }

    private static Object[] words(String line) {
        List<String> words = new ArrayList<>();
        Matcher matcher = WORD.matcher(line);
        while (matcher.find()) {
            words.add(matcher.group(1).replace("\\\"", "\"").replace("\\n", "\n").replace("\\\\", "\\"));
        }
        return words.toArray();
    }
}
