package rlock.redisson.testing;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * A server of locks for tests: {@code rlock dev}, the engine of the rlock module on locks in memory. It starts in some
 * milliseconds, on a free port, and ends with {@link #close}, or with this JVM. {@link DevServerExtension} starts one for
 * the tests of a class.
 *
 * <p>The program is the one that the environment variable {@code RLOCK_BIN} names, or the {@code rlock} on {@code PATH}.
 */
public final class DevServer implements AutoCloseable {
    private static final String MISSING = "there is no rlock on PATH: install the command (cargo install --path cli, in a "
            + "checkout of rlock), or set RLOCK_BIN to it";

    private final Process process;
    private final String url;

    private DevServer(Process process, String url) {
        this.process = process;
        this.url = url;
    }

    /**
     * Starts a server.
     *
     * @param options of {@code rlock dev}, such as {@code "--set", "max-waiters=10"}
     * @return the server, which accepts connections
     * @throws IllegalStateException if there is no such program, or it does not start
     */
    public static DevServer start(String... options) {
        String program = program();
        List<String> command = new ArrayList<>(List.of(program, "dev", "--port", "0", "--until-eof"));
        command.addAll(List.of(options));
        try {
            // The server ends when its input ends, so also when this JVM does.
            Process process = new ProcessBuilder(command).start();
            String line = reader(process.getInputStream()).readLine();
            if (line == null) {
                String complaints = reader(process.getErrorStream()).lines().collect(Collectors.joining("\n"));
                throw new IllegalStateException(program + " dev does not start: " + complaints);
            }
            return new DevServer(process, line);
        } catch (IOException e) {
            throw new IllegalStateException(program + " dev does not start", e);
        }
    }

    private static BufferedReader reader(java.io.InputStream stream) {
        return new BufferedReader(new InputStreamReader(stream, StandardCharsets.UTF_8));
    }

    private static String program() {
        String named = System.getenv("RLOCK_BIN");
        if (named != null && !named.isEmpty()) {
            return named;
        }
        String places = System.getenv("PATH") == null ? "" : System.getenv("PATH");
        for (String place : places.split(Pattern.quote(File.pathSeparator))) {
            Path program = Path.of(place, "rlock");
            if (Files.isExecutable(program)) {
                return program.toString();
            }
        }
        throw new IllegalStateException(MISSING);
    }

    /**
     * Its address.
     *
     * @return as Redisson's {@code setAddress} takes it
     */
    public String url() {
        return url;
    }

    /** Ends the server. */
    @Override
    public void close() {
        try {
            process.getOutputStream().close();
            if (!process.waitFor(5, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }
}
