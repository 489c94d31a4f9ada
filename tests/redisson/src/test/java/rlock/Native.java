package rlock;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * A client that is not Redisson: one connection, any command, the reply as it is.
 *
 * <p>Written out rather than taken from a library, so that nothing between these tests and the server can retry,
 * reconnect or translate. Strings are Latin-1: each byte is a char.
 */
final class Native implements AutoCloseable {
    /** An error reply. */
    static final class Refused extends RuntimeException {
        Refused(String line) {
            super(line);
        }
    }

    private final Socket socket;
    private final InputStream in;

    Native(int port) {
        try {
            socket = new Socket("127.0.0.1", port);
            socket.setTcpNoDelay(true);
            socket.setSoTimeout((int) Patience.LIMIT.toMillis());
            in = new BufferedInputStream(socket.getInputStream());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** A command given as words with spaces between them. Its reply: null, a Long, a String, or a List of these. */
    Object say(String command) {
        return run((Object[]) command.split(" "));
    }

    Object run(Object... words) {
        send(words);
        return receive();
    }

    long number(String command) {
        return (Long) say(command);
    }

    /** How often clients have sent a command to this server. */
    long calls(String command) {
        String[] parts = ("" + say("INFO commandstats")).toLowerCase(Locale.ROOT).split("cmdstat_" + command + ":calls=");
        return parts.length < 2 ? 0 : Long.parseLong(parts[1].split(",")[0]);
    }

    void send(Object... words) {
        var bytes = new ByteArrayOutputStream();
        write(bytes, "*" + words.length + "\r\n");
        for (Object word : words) {
            String text = word.toString();
            write(bytes, "$" + text.length() + "\r\n" + text + "\r\n");
        }
        try {
            socket.getOutputStream().write(bytes.toByteArray());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The next reply or message. */
    Object receive() {
        try {
            return read();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private Object read() throws IOException {
        int kind = in.read();
        String line = readLine();
        switch (kind) {
            case '+': return line;
            case ':': return Long.valueOf(line);
            case '-': throw new Refused(line);
            case '$': return readText(Integer.parseInt(line));
            case '*': return readList(Integer.parseInt(line));
            default: throw new EOFException("the server closed the connection, or sent " + kind);
        }
    }

    private String readText(int length) throws IOException {
        if (length < 0) {
            return null;
        }
        byte[] bytes = in.readNBytes(length);
        in.readNBytes(2);
        return new String(bytes, StandardCharsets.ISO_8859_1);
    }

    private List<Object> readList(int length) throws IOException {
        if (length < 0) {
            return null;
        }
        List<Object> list = new ArrayList<>();
        for (int i = 0; i < length; i++) {
            list.add(read());
        }
        return list;
    }

    private String readLine() throws IOException {
        var line = new StringBuilder();
        for (int c = in.read(); c != '\n'; c = in.read()) {
            if (c < 0) {
                throw new EOFException("the server closed the connection");
            }
            line.append((char) c);
        }
        return line.substring(0, line.length() - 1);
    }

    private static void write(ByteArrayOutputStream bytes, String text) {
        bytes.writeBytes(text.getBytes(StandardCharsets.ISO_8859_1));
    }

    @Override
    public void close() {
        try {
            socket.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
