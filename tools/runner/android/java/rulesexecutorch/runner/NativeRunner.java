package rulesexecutorch.runner;

import java.nio.charset.StandardCharsets;

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
  static void run(String[] arguments, int output) {
    byte[][] encoded = new byte[arguments.length][];
    for (int i = 0; i < arguments.length; i++) {
      // JNI's own strings are no UTF-8: they have emoji in another form.
      encoded[i] = arguments[i].getBytes(StandardCharsets.UTF_8);
    }
    runEncoded(encoded, output);
  }

  private static native void runEncoded(byte[][] arguments, int output);
}
