import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.commands.ProtocolCommand;
import rlock.redisson.RedissonLocks;

/** Whoever is compared: as many clients of each, as processes would have them, and one that many threads share. */
final class Sides implements AutoCloseable {
  /** One of them: its name, which is that of its connections, its server, and its clients. */
  record Side(String name, int port, List<Locker> processes, List<Locker> threads) {}

  final List<Side> all = new ArrayList<>();
  private final List<AutoCloseable> clients = new ArrayList<>();

  Sides(int plain, int native_, int processes, int threads) {
    all.add(redisson("redisson", plain, processes, threads, client -> client::getLock));
    all.add(redisson("wrapped", native_, processes, threads, client -> RedissonLocks.of(client)::getLock));
    all.add(commands("rlock", native_, processes, threads));
  }

  private Side redisson(
      String name, int port, int processes, int threads, Function<RedissonClient, Function<String, RLock>> locks) {
    Side side = new Side(name, port, new ArrayList<>(), new ArrayList<>());
    for (int process = 0; process < processes; process++) {
      side.processes.add(new RedissonLocker(locks.apply(client(name, port, 2, 1, 2))));
    }
    Function<String, RLock> shared = locks.apply(client(name, port, 16, 24, 64));
    for (int thread = 0; thread < threads; thread++) {
      side.threads.add(new RedissonLocker(shared));
    }
    return side;
  }

  /** As it comes, with its watchdog; only with fewer threads and connections, where there are many of it. */
  private RedissonClient client(String name, int port, int threads, int idle, int connections) {
    Config config = new Config();
    config.setThreads(threads).setNettyThreads(threads);
    config.useSingleServer().setAddress("redis://127.0.0.1:" + port).setClientName(name)
        .setConnectionMinimumIdleSize(idle).setConnectionPoolSize(connections);
    RedissonClient client = Redisson.create(config);
    clients.add(client::shutdown);
    return client;
  }

  private Side commands(String name, int port, int processes, int threads) {
    Side side = new Side(name, port, new ArrayList<>(), new ArrayList<>());
    for (int locker = 0; locker < Math.max(processes, threads); locker++) {
      CommandLocker own = new CommandLocker(name, port, locker);
      clients.add(own);
      if (locker < processes) {
        side.processes.add(own);
      }
      if (locker < threads) {
        side.threads.add(own);
      }
    }
    return side;
  }

  @Override
  public void close() throws Exception {
    for (AutoCloseable client : clients) {
      client.close();
    }
  }

  private record RedissonLocker(Function<String, RLock> locks) implements Locker {
    @Override
    public void cycle(String name) {
      RLock lock = locks.apply(name);
      lock.lock();
      lock.unlock();
    }
  }

  /** The commands over a connection of its own, without a watchdog. */
  private static final class CommandLocker implements Locker, AutoCloseable {
    private static final String LEASE = "30000";
    private static final ProtocolCommand ACQUIRE = () -> "RLOCK.ACQUIRE".getBytes();
    private static final ProtocolCommand RELEASE = () -> "RLOCK.RELEASE".getBytes();

    private final Jedis connection;
    private final String holder;

    CommandLocker(String name, int port, int client) {
      connection = new Jedis("127.0.0.1", port, 60_000);
      connection.clientSetname(name);
      holder = "b983c153-7421-469a-addb-44fb92259a1b:" + client;
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
