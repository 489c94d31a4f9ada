package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.io.InputStream;
import java.lang.ProcessBuilder.Redirect;
import java.net.MalformedURLException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Key;
import java.security.KeyStore;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisConnectionException;
import rlock.redisson.RedissonLocks;

/** A server that speaks TLS: what a lock sends goes by Redisson's connections, the polls of its waits too. */
class WrappedTlsTest {
    private static final String PASSWORD = "changeit";

    @TempDir
    private Path files;

    @Test
    void a_lock_waits_is_handed_over_and_is_renewed_and_a_stranger_is_not_trusted() throws Exception {
        try (Native plain = Node.shared().client()) {
            assumeFalse(((List<?>) plain.say("CONFIG GET tls-port")).isEmpty(), "the server was built without TLS");
        }
        Path store = certify();
        String address = "rediss://localhost:" + Node.freePort();
        Node node = Node.start("--tls-port", address.split(":")[2], "--tls-auth-clients", "no",
                "--tls-cert-file", "" + files.resolve("cert"), "--tls-key-file", "" + files.resolve("key"));
        assertThrows(RedisConnectionException.class, () -> Fleet.plainOn(address), "nobody vouches for it");
        RedissonClient one = trusting(address, store);
        RedissonClient other = trusting(address, store);
        RLock held = RedissonLocks.of(one).getLock("sealed");
        RLock wanted = RedissonLocks.of(other).getLock("sealed");
        held.lock();
        CompletableFuture<Boolean> waits = wanted.tryLockAsync(60, -1, TimeUnit.SECONDS, 7).toCompletableFuture();
        try (Native observer = node.client()) {
            Patience.until("it waits", () -> ((List<?>) observer.say("RLOCK.QUEUES")).size() == 1);
            held.unlock();
            assertEquals(true, waits.get());
            long ends = observer.number("PEXPIRETIME sealed");
            Patience.until("it is renewed", () -> observer.number("PEXPIRETIME sealed") > ends);
            wanted.unlockAsync(7).toCompletableFuture().join();
            assertFalse(held.isLocked());
        }
        Fleet.end(one);
        Fleet.end(other);
        node.stop();
    }

    private static RedissonClient trusting(String address, Path store) {
        return Fleet.plainWith(config -> {
            try {
                config.useSingleServer().setAddress(address)
                        .setSslTruststore(store.toUri().toURL()).setSslTruststorePassword(PASSWORD);
            } catch (MalformedURLException e) {
                throw new AssertionError(e);
            }
        });
    }

    /** A certificate that vouches for itself, as Java stores it, and as a server reads it. */
    private Path certify() throws Exception {
        Path store = files.resolve("store");
        Path keytool = Path.of(System.getProperty("java.home"), "bin", "keytool");
        assertEquals(0, new ProcessBuilder("" + keytool, "-genkeypair", "-alias", "it", "-keyalg", "EC", "-dname",
                "CN=localhost", "-ext", "san=dns:localhost", "-storetype", "PKCS12", "-keystore", "" + store,
                "-storepass", PASSWORD).redirectErrorStream(true).redirectOutput(Redirect.DISCARD).start().waitFor());
        KeyStore pair = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(store)) {
            pair.load(in, PASSWORD.toCharArray());
        }
        Key key = pair.getKey("it", PASSWORD.toCharArray());
        Files.writeString(files.resolve("key"), pem("PRIVATE KEY", key.getEncoded()));
        Files.writeString(files.resolve("cert"), pem("CERTIFICATE", pair.getCertificate("it").getEncoded()));
        return store;
    }

    private static String pem(String what, byte[] bytes) {
        String text = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(bytes);
        return "-----BEGIN " + what + "-----\n" + text + "\n-----END " + what + "-----\n";
    }
}
