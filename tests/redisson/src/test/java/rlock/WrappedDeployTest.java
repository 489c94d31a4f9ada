package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** A service gets SIGTERM, as at each deploy: its lock and its place are free at once, not when a lease ends. */
class WrappedDeployTest {
    private static Process start(String lock) throws Exception {
        return new ProcessBuilder(ProcessHandle.current().info().command().orElseThrow(), "-cp",
                System.getProperty("java.class.path"), WrappedDeploy.class.getName(), Node.shared().address(), lock)
                .redirectError(ProcessBuilder.Redirect.DISCARD).start();
    }

    private static void assertEndsWell(Process service) throws Exception {
        assertTrue(service.waitFor(Patience.LIMIT.toSeconds(), TimeUnit.SECONDS), "it has ended");
        assertEquals(0, service.exitValue());
    }

    @Test
    void the_lock_of_a_service_that_is_told_to_end_is_released() throws Exception {
        Process holder = start("deploy");
        Process next = null;
        try {
            assertEquals("held", new BufferedReader(new InputStreamReader(holder.getInputStream())).readLine());
            long before = Node.tickets();
            next = start("deploy");
            Patience.until("the next one waits", () -> Node.tickets() > before);
            Waiter last = Waiter.rlock(Node.shared(), "RLOCK.ACQUIRE deploy last 60000 WAIT 0");
            next.destroy();
            assertEndsWell(next);
            holder.destroy();
            last.grantedAt();
            assertEndsWell(holder);
        } finally {
            holder.destroyForcibly();
            if (next != null) {
                next.destroyForcibly();
            }
        }
    }
}
