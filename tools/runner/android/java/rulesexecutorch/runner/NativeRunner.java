package rulesexecutorch.runner;

import java.nio.charset.StandardCharsets;

/** The C++ runner, which ends its process. */
final class NativeRunner {
  static {
    System.loadLibrary("runner");
  }

  private NativeRunner() {}

  /**
   * Runs programs and does not return: it ends the process, also after an error.
   *
   * @param arguments as on the command line
   * @param input file descriptor for the runner's input; negative: it has none
   * @param output file descriptor for the runner's output
   */
  static void run(String[] arguments, int input, int output) {
    byte[][] encoded = new byte[arguments.length][];
    for (int i = 0; i < arguments.length; i++) {
      // JNI's own strings are not UTF-8: they encode emoji differently.
      encoded[i] = arguments[i].getBytes(StandardCharsets.UTF_8);
    }
    runEncoded(encoded, input, output);
  }

  private static native void runEncoded(byte[][] arguments, int input, int output);
}
