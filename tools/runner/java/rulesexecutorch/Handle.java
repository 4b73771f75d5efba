package rulesexecutorch;

import java.util.concurrent.locks.ReentrantLock;

/**
 * An object that native code opened. One thread at a time uses it, and nobody after it was closed.
 *
 * <p>A program and its chats have one lock, because they share memory. Whoever holds it must not take that of {@link
 * Programs}: that order would not be the same everywhere.
 */
abstract class Handle implements AutoCloseable {
  private final ReentrantLock lock;
  // 0: closed. Changes with the lock and this object's monitor held.
  private long address;

  Handle(long address, ReentrantLock lock) {
    this.address = address;
    this.lock = lock;
  }

  final ReentrantLock lock() {
    return lock;
  }

  /**
   * Takes the lock, and gives the address. The caller unlocks.
   *
   * @throws ProgramException if it is closed, or a listener calls it
   */
  final long enter() {
    lockOnce();
    if (address == 0) {
      lock.unlock();
      throw isClosed();
    }
    return address;
  }

  final ProgramException isClosed() {
    return new ProgramException(
        ProgramException.Code.INVALID_ARGUMENT, "This " + what() + " is closed. Open another one.");
  }

  final void leave() {
    lock.unlock();
  }

  /**
   * Frees it; waits for the thread that uses it. The second time, it has no effect.
   *
   * @throws ProgramException if a listener calls it
   */
  @Override
  public void close() {
    lockOnce();
    try {
      release();
    } finally {
      lock.unlock();
    }
  }

  /** Frees it, for a caller that holds the lock. */
  final void release() {
    long opened;
    synchronized (this) {
      opened = address;
      address = 0;
    }
    if (opened != 0) {
      free(opened);
    }
  }

  /** The address, for a caller that holds the lock or this object's monitor; 0: it is closed. */
  final long address() {
    return address;
  }

  /** Its name in errors. */
  abstract String what();

  /** Frees it, with what it opened. */
  abstract void free(long opened);

  // A listener has the lock already.
  private void lockOnce() {
    lock.lock();
    if (lock.getHoldCount() > 1) {
      lock.unlock();
      throw new ProgramException(
          ProgramException.Code.INVALID_ARGUMENT,
          "This " + what() + " is answering: a listener called it. Return false to end the answer, and call it then.");
    }
  }
}
