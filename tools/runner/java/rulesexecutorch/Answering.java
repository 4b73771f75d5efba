package rulesexecutorch;

import java.nio.charset.StandardCharsets;

/** The listener that native code calls while a chat answers. Throws nothing: native code would go on. */
final class Answering {
  private final Chat chat;
  private final Chat.Listener listener;
  private final StringBuilder text = new StringBuilder();
  private Throwable thrown;
  private Answer answer;

  Answering(Chat chat, Chat.Listener listener) {
    this.chat = chat;
    this.listener = listener;
  }

  /** A part of the answer; false ends it. */
  boolean hear(byte[] part) {
    try {
      String decoded = new String(part, StandardCharsets.UTF_8);
      text.append(decoded);
      return (listener == null || listener.onPart(decoded)) && !chat.isEnding();
    } catch (Throwable error) {
      thrown = error;
      return false;
    }
  }

  /** The end of the answer. */
  void end(
      byte[] reason, long promptTokens, long tokens, double prefillMs, long decodeTokens, double decodeMs) {
    answer =
        new Answer(
            text.toString(),
            new String(reason, StandardCharsets.UTF_8),
            promptTokens,
            tokens,
            prefillMs,
            decodeTokens,
            decodeMs);
  }

  /** The answer, or what the listener threw. */
  Answer answer() {
    if (thrown != null) {
      Answering.<RuntimeException>rethrow(thrown);
    }
    return answer;
  }

  // As it is: a listener declares no checked exceptions, but code in Kotlin throws them nevertheless.
  @SuppressWarnings("unchecked")
  private static <T extends Throwable> void rethrow(Throwable thrown) throws T {
    throw (T) thrown;
  }
}
