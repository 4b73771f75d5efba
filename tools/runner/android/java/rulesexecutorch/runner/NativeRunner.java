package rulesexecutorch.runner;

/** The C++ runner, which ends its process when it is done. */
final class NativeRunner {
  static {
    System.loadLibrary("runner");
  }

  private NativeRunner() {}

  /**
   * Runs programs and does not return: it ends the process, also where something is wrong.
   *
   * @param arguments as on the command line
   * @param output file descriptor that gets all that the runner prints
   */
  static native void run(String[] arguments, int output);
}
