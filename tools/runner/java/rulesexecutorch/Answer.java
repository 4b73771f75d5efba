package rulesexecutorch;

/** An answer of a language model. */
public final class Answer {
  private final String text;
  private final String reason;
  private final long promptTokens;
  private final long tokens;
  private final double prefillMs;
  private final long decodeTokens;
  private final double decodeMs;

  Answer(
      String text,
      String reason,
      long promptTokens,
      long tokens,
      double prefillMs,
      long decodeTokens,
      double decodeMs) {
    this.text = text;
    this.reason = reason;
    this.promptTokens = promptTokens;
    this.tokens = tokens;
    this.prefillMs = prefillMs;
    this.decodeTokens = decodeTokens;
    this.decodeMs = decodeMs;
  }

  /** All of it. */
  public String text() {
    return text;
  }

  /** The reason why it ended: "end", "length", "context" or "stopped". */
  public String reason() {
    return reason;
  }

  /** The tokens of the message. */
  public long promptTokens() {
    return promptTokens;
  }

  /** The tokens of the answer. */
  public long tokens() {
    return tokens;
  }

  /** Milliseconds of reading the message. */
  public double prefillMs() {
    return prefillMs;
  }

  /** Calls with one token. */
  public long decodeTokens() {
    return decodeTokens;
  }

  /** Milliseconds of the calls with one token. */
  public double decodeMs() {
    return decodeMs;
  }
}
