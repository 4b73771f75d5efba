package rulesexecutorch;

import java.nio.charset.StandardCharsets;

/** The problem, as one sentence. */
public final class ProgramException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** Kinds of failures, in the order of {@code executorch_app_code}. */
  public enum Code {
    /** An argument is wrong: no such program or method, an input that does not fit the method, a closed object. */
    INVALID_ARGUMENT,
    /** A file is missing, damaged, or not the one that the program was built with. */
    INVALID_FILES,
    /** The runtime cannot load the program or the method. */
    NOT_LOADED,
    /** The program failed while it ran. */
    FAILED,
    /** The message does not fit into what is left of the context; rewind, or shorten it. */
    CONTEXT_FULL
  }

  private final Code code;

  ProgramException(Code code, String sentence) {
    super(sentence);
    this.code = code;
  }

  /** The kind of failure. */
  public Code code() {
    return code;
  }

  /** For native code: an {@code executorch_app_code}, and a sentence in UTF-8. */
  static ProgramException of(int code, byte[] sentence) {
    Code[] codes = Code.values();
    boolean known = code >= 1 && code <= codes.length;
    return new ProgramException(known ? codes[code - 1] : Code.FAILED, new String(sentence, StandardCharsets.UTF_8));
  }
}
