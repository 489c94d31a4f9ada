import java.util.ArrayList;
import java.util.List;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.commands.ProtocolCommand;

/** As many clients of Redisson as of the commands. */
final class Sides implements AutoCloseable {
  final List<Locker> redisson = new ArrayList<>();
  final List<Locker> commands = new ArrayList<>();

  Sides(int plain, int native_, int clients) {
    for (int client = 0; client < clients; client++) {
      redisson.add(new RedissonLocker(plain));
      commands.add(new CommandLocker(native_, client));
    }
  }

  @Override
  public void close() {
    redisson.forEach(Locker::close);
    commands.forEach(Locker::close);
  }

  /** As it comes, with its watchdog; only with fewer threads and connections, since there are many of it. */
  private static final class RedissonLocker implements Locker {
    private final RedissonClient client;

    RedissonLocker(int port) {
      Config config = new Config();
      config.setThreads(2).setNettyThreads(2);
      config.useSingleServer().setAddress("redis://127.0.0.1:" + port).setConnectionMinimumIdleSize(1)
          .setConnectionPoolSize(2);
      client = Redisson.create(config);
    }

    @Override
    public String name() {
      return "redisson";
    }

    @Override
    public void cycle(String name) {
      RLock lock = client.getLock(name);
      lock.lock();
      lock.unlock();
    }

    @Override
    public void close() {
      client.shutdown();
    }
  }

  /** The commands over a connection of its own, without a watchdog. */
  private static final class CommandLocker implements Locker {
    private static final String LEASE = "30000";
    private static final ProtocolCommand ACQUIRE = () -> "RLOCK.ACQUIRE".getBytes();
    private static final ProtocolCommand RELEASE = () -> "RLOCK.RELEASE".getBytes();

    private final Jedis connection;
    private final String holder;

    CommandLocker(int port, int client) {
      connection = new Jedis("127.0.0.1", port, 60_000);
      holder = "b983c153-7421-469a-addb-44fb92259a1b:" + client;
    }

    @Override
    public String name() {
      return "rlock";
    }

    @Override
    public void cycle(String lock) {
      if (connection.sendCommand(ACQUIRE, lock, holder, LEASE, "WAIT", "0") != null) {
        throw new IllegalStateException("not granted");
      }
      if ((Long) connection.sendCommand(RELEASE, lock, holder) != 1) {
        throw new IllegalStateException("not released");
      }
    }

    @Override
    public void close() {
      connection.close();
    }
  }
}
