package rulesexecutorch;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/**
 * The functions of executorch_app.h. Handles are addresses, which {@link Handle} guards. Texts are UTF-8, because JNI's
 * own strings encode emoji differently; null is NULL.
 */
final class Native {
  private static final String LIBRARY = "rulesexecutorch.library";

  static {
    String path = System.getProperty(LIBRARY);
    if (path == null) {
      System.loadLibrary("executorch_app");
    } else {
      System.load(path);
    }
  }

  private Native() {}

  /**
   * A value that may not be null.
   *
   * @param what name of the argument, for errors
   * @throws ProgramException if it is null
   */
  static <T> T required(String what, T value) {
    if (value == null) {
      throw new ProgramException(
          ProgramException.Code.INVALID_ARGUMENT, what + ": got null, expected a value.");
    }
    return value;
  }

  /**
   * A text for a function.
   *
   * @param what name of the argument, for errors
   * @param text may be null
   * @throws ProgramException if it contains the character U+0000, which ends texts of C
   */
  static byte[] encoded(String what, String text) {
    if (text == null) {
      return null;
    }
    if (text.indexOf('\0') >= 0) {
      throw new ProgramException(
          ProgramException.Code.INVALID_ARGUMENT,
          what + ": got a text with the character U+0000, expected one without.");
    }
    return text.getBytes(StandardCharsets.UTF_8);
  }

  /** Texts of a function. */
  static String[] decoded(byte[][] texts) {
    String[] all = new String[texts.length];
    for (int i = 0; i < texts.length; i++) {
      all[i] = new String(texts[i], StandardCharsets.UTF_8);
    }
    return all;
  }

  static native long open(
      byte[] path,
      byte[] manifest,
      byte[][] data,
      boolean verify,
      boolean weightCache,
      boolean noWeightCache,
      byte[][] variants,
      byte[][] device,
      byte[] state);

  static native byte[] variant(long app, byte[] name);

  static native void close(long app);

  static native byte[][] programNames(long app);

  static native long openSession(long app, byte[] program);

  static native void closeSession(long session);

  static native byte[][] methodNames(long session);

  // For each output its dtype (String), its shape (long[]) and its data (a direct ByteBuffer).
  static native Object[] run(long session, byte[] method, byte[][] dtypes, long[][] shapes, ByteBuffer[] data);

  static native long openChat(
      long session,
      byte[] tokenizer,
      byte[] system,
      boolean raw,
      double temperature,
      int seed,
      int maxNewTokens);

  static native void closeChat(long chat);

  static native void attach(long chat, byte[][] dtypes, long[][] shapes, ByteBuffer[] data);

  static native void say(long chat, byte[] message, Answering answering);

  static native void stop(long chat);

  static native long turns(long chat);

  static native void rewind(long chat, long turns);

  static native void saveChat(long chat, byte[] path);

  static native void restoreChat(long chat, byte[] path);

  static native void switchAdapter(long chat, byte[] program, byte[][] data);

  static native long countTokens(long chat, byte[] message);

  static native long room(long chat);
}
