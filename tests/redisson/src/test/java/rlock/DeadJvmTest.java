package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** A JVM is killed while it holds locks. Its watchdog dies with it, so the leases end, and the waiters get the locks. */
class DeadJvmTest {
    private static final double LATE_MS = 10;

    @Test
    void native_waiters_are_granted_when_the_leases_of_a_killed_jvm_end() throws Exception {
        List<String> names = IntStream.range(0, Latency.ROUNDS).mapToObj(i -> "dead:" + i).collect(Collectors.toList());
        Process service = start(names);
        try (Native client = Node.shared().client(); Crew crew = new Crew()) {
            assertEquals("locked", new BufferedReader(new InputStreamReader(service.getInputStream())).readLine());
            Latency latency = new Latency();
            for (String name : names) {
                crew.start(() -> latency.add(lateness(name, service)));
            }
            Patience.until("all wait", () -> Waiter.waiting(client) == names.size());
            outliveALease(client, names.get(0));
            service.destroyForcibly().waitFor();
            crew.finish();
            latency.assertMedianWithin(LATE_MS);
        } finally {
            service.destroyForcibly();
        }
    }

    /** The watchdog renews: the lease ends later than it did. */
    private static void outliveALease(Native client, String name) {
        long end = client.number("PEXPIRETIME " + name);
        Patience.until("the lease is renewed", () -> client.number("PEXPIRETIME " + name) > end);
    }

    /**
     * Waits for a lock of the killed JVM.
     *
     * @return how many ms later it was granted than another lock with a lease that ended at the same time; both are by the
     *     server's clock, so a busy machine is as late with both
     */
    private static double lateness(String name, Process service) throws Exception {
        String twin = "twin:" + name;
        try (Native waiter = Node.shared().client(); Native other = Node.shared().client();
                Native observer = Node.shared().client()) {
            waiter.send("RLOCK.ACQUIRE", name, "heir", Fleet.LONG_MS, "WAIT", 0);
            service.waitFor();
            long end = observer.number("PEXPIRETIME " + name);
            assertEquals(0L, observer.say("HEXISTS " + name + " heir"), "that is the end of the killed JVM's lease");
            assertNull(observer.say("RLOCK.ACQUIRE " + twin + " gone " + Math.max(1, end - System.currentTimeMillis())));
            long endOfTwin = observer.number("PEXPIRETIME " + twin);
            other.say("RLOCK.ACQUIRE " + twin + " heir " + Fleet.LONG_MS + " WAIT 0");
            waiter.receive();
            long late = observer.number("PEXPIRETIME " + name) - Fleet.LONG_MS - end;
            assertTrue(late >= 0, name + " was granted " + -late + " ms before its lease had ended");
            long usual = observer.number("PEXPIRETIME " + twin) - Fleet.LONG_MS - endOfTwin;
            observer.say("DEL " + name + " " + twin);
            return late - usual;
        }
    }

    private static Process start(List<String> names) throws Exception {
        List<String> command = new ArrayList<>(List.of(ProcessHandle.current().info().command().orElseThrow(), "-cp",
                System.getProperty("java.class.path"), "-Dredisson.version=" + System.getProperty("redisson.version"),
                LockAndHang.class.getName(), Node.shared().address()));
        command.addAll(names);
        return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start();
    }
}
