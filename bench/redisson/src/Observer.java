import redis.clients.jedis.Jedis;

/** What a server says of itself: how much processor it has used, and how many connections somebody has. */
final class Observer implements AutoCloseable {
  private final Jedis connection;

  Observer(int port) {
    connection = new Jedis("127.0.0.1", port, 60_000);
  }

  double processorSeconds() {
    String info = connection.info("cpu");
    return field(info, "used_cpu_user:") + field(info, "used_cpu_sys:");
  }

  private static double field(String info, String name) {
    return Double.parseDouble(info.split("\n" + name)[1].split("\r")[0]);
  }

  long connections(String name) {
    return connection.clientList().lines().filter(line -> line.contains(" name=" + name + " ")).count();
  }

  @Override
  public void close() {
    connection.close();
  }
}
