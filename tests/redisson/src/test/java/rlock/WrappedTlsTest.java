package rlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.io.OutputStream;
import java.net.MalformedURLException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.Certificate;
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
    void a_lock_is_waited_for_handed_over_and_renewed_and_a_stranger_is_not_trusted() throws Exception {
        try (Native plain = Node.shared().client()) {
            assumeFalse(((List<?>) plain.say("CONFIG GET tls-port")).isEmpty(), "the server was built without TLS");
        }
        KeyStore itself = selfSigned();
        Certificate certificate = itself.getCertificate("it");
        Path store = store(certificate);
        String address = "rediss://localhost:" + Node.freePort();
        Node node = Node.start("--tls-port", address.split(":")[2], "--tls-auth-clients", "no",
                "--tls-cert-file", pem("CERTIFICATE", certificate.getEncoded()),
                "--tls-key-file", pem("PRIVATE KEY", itself.getKey("it", PASSWORD.toCharArray()).getEncoded()));
        assertThrows(RedisConnectionException.class, () -> Fleet.plainWith(config -> config.useSingleServer()
                .setAddress(address).setConnectionMinimumIdleSize(1).setRetryAttempts(0)), "it is not guaranteed");
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
                config.useSingleServer().setAddress(address).setConnectionMinimumIdleSize(1)
                        .setSslTruststore(store.toUri().toURL()).setSslTruststorePassword(PASSWORD);
            } catch (MalformedURLException e) {
                throw new AssertionError(e);
            }
        });
    }

    /** By the tool that each Java has: Netty 4.1 makes certificates with classes that newer Javas do not share. */
    private KeyStore selfSigned() throws Exception {
        Path made = files.resolve("made");
        assertEquals(0, new ProcessBuilder(System.getProperty("java.home") + "/bin/keytool", "-genkeypair", "-alias", "it",
                "-dname", "CN=localhost", "-ext", "san=dns:localhost", "-keyalg", "RSA", "-storetype", "PKCS12",
                "-keystore", "" + made, "-storepass", PASSWORD)
                .redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start().waitFor());
        return KeyStore.getInstance(made.toFile(), PASSWORD.toCharArray());
    }

    /** Writes a file for the server, and returns its path. */
    private String pem(String what, byte[] bytes) throws Exception {
        String text = Base64.getMimeEncoder().encodeToString(bytes);
        String lines = String.format("-----BEGIN %1$s-----%n%2$s%n-----END %1$s-----%n", what, text);
        return "" + Files.writeString(files.resolve(what), lines);
    }

    /** A store that trusts a certificate. */
    private Path store(Certificate trusted) throws Exception {
        KeyStore all = KeyStore.getInstance("PKCS12");
        all.load(null, null);
        all.setCertificateEntry("it", trusted);
        Path store = files.resolve("store");
        try (OutputStream out = Files.newOutputStream(store)) {
            all.store(out, PASSWORD.toCharArray());
        }
        return store;
    }
}
