package rlock;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;

/**
 * A slow network between a client and the server: once the client has subscribed, the replies to its commands are held
 * back until the gate opens, while messages still come through. So the order that a race needs is there each time.
 */
final class Gate implements AutoCloseable {
    private final ServerSocket entrance;
    private final int serverPort;
    private final String channel;
    private final CountDownLatch replyIsHeld = new CountDownLatch(1);
    private final CountDownLatch messageIsThrough = new CountDownLatch(1);
    private final CountDownLatch open = new CountDownLatch(1);
    private volatile boolean subscribed;

    /** Closes when the client subscribes to the channel. */
    Gate(int serverPort, String channel) throws IOException {
        this.serverPort = serverPort;
        this.channel = channel;
        entrance = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        daemon(this::admit);
    }

    String address() {
        return "redis://127.0.0.1:" + entrance.getLocalPort();
    }

    void awaitHeldReply() throws InterruptedException {
        replyIsHeld.await();
    }

    void awaitMessage() throws InterruptedException {
        messageIsThrough.await();
    }

    void open() {
        open.countDown();
    }

    @Override
    public void close() throws IOException {
        open();
        entrance.close();
    }

    private void admit() throws IOException {
        while (true) {
            Socket client = entrance.accept();
            Socket server = new Socket("127.0.0.1", serverPort);
            boolean[] listens = new boolean[1];
            daemon(() -> pump(client.getInputStream(), server.getOutputStream(), text -> {
                listens[0] |= text.contains("SUBSCRIBE");
                subscribed |= text.contains("SUBSCRIBE") && text.contains(channel);
            }, text -> { }));
            daemon(() -> pump(server.getInputStream(), client.getOutputStream(), text -> {
                if (subscribed && !listens[0]) {
                    replyIsHeld.countDown();
                    open.await();
                }
            }, text -> {
                if (text.contains("\nmessage\r") && text.contains(channel)) {
                    messageIsThrough.countDown();
                }
            }));
        }
    }

    interface Watch {
        void see(String text) throws InterruptedException;
    }

    interface Task {
        void run() throws Exception;
    }

    private static void pump(InputStream from, OutputStream to, Watch before, Watch after) throws Exception {
        byte[] buffer = new byte[1 << 16];
        for (int length = from.read(buffer); length > 0; length = from.read(buffer)) {
            String text = new String(buffer, 0, length, StandardCharsets.ISO_8859_1);
            before.see(text);
            to.write(buffer, 0, length);
            after.see(text);
        }
        to.close();
    }

    private static void daemon(Task task) {
        Thread thread = new Thread(() -> {
            try {
                task.run();
            } catch (Exception closed) {
                // One of the two ends has gone, and with it this connection.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
