/** One client, which stands for a process of its own. */
interface Locker extends AutoCloseable {
  String name();

  /** Waits for the lock, has it, and gives it back. */
  void cycle(String lock);

  @Override
  void close();
}
