/** Who takes a lock: a process with a client of its own, or one thread of many that share a client. */
interface Locker {
  /** Waits for the lock, has it, and gives it back. */
  void cycle(String lock);
}
