package rulesexecutorch;

import java.io.File;
import java.nio.ByteBuffer;
import java.util.concurrent.locks.ReentrantLock;

/** A conversation with a language model. {@link Program#chat(Chat.Options)} returns it. */
public final class Chat extends Handle implements AutoCloseable {
  /** Receives an answer while it is generated, in the thread that said the message. */
  public interface Listener {
    /**
     * Receives a part of the answer.
     *
     * @param text whole characters
     * @return false to end the answer. What it throws ends the answer, too, and {@link Chat#say} throws it.
     */
    boolean onPart(String text);
  }

  /** Options of {@link Program#chat(Options)}; each method returns its object. */
  public static final class Options {
    private File tokenizer;
    private String system;
    private boolean raw;
    private double temperature;
    private int seed;
    private int maxNewTokens;

    /** A tokenizer.json, with chat_format.json beside it; default: the app's. */
    public Options tokenizer(File tokenizer) {
      this.tokenizer = tokenizer;
      return this;
    }

    /** The system message; default: the chat template's. */
    public Options system(String system) {
      this.system = system;
      return this;
    }

    /** Makes messages the model's whole input, without a chat format; default: false. */
    public Options raw(boolean raw) {
      this.raw = raw;
      return this;
    }

    /** 0, the default: the most likely token; 1: the model's distribution. */
    public Options temperature(double temperature) {
      this.temperature = temperature;
      return this;
    }

    /** Of the random numbers; 0, the default: a random one. */
    public Options seed(int seed) {
      this.seed = seed;
      return this;
    }

    /** The maximum tokens of an answer; 0, the default: 256. */
    public Options maxNewTokens(int maxNewTokens) {
      this.maxNewTokens = maxNewTokens;
      return this;
    }

    long open(long session) {
      return Native.openChat(
          session,
          Programs.encoded("tokenizer", tokenizer),
          Native.encoded("system", system),
          raw,
          temperature,
          seed,
          maxNewTokens);
    }
  }

  // Somebody waits to close it.
  private volatile boolean ending;

  Chat(long address, ReentrantLock lock) {
    super(address, lock);
  }

  /**
   * Gives an image or a recording to the next message, and runs the program's encoder. The message has a place for
   * each, in the order of these calls: the token that the metadata get_media_token_id name, such as "&lt;image&gt;",
   * once or as often as it has positions. Rewinding forgets what no message has said yet.
   *
   * @param media the input of the program's vision_encoder or audio_encoder
   * @throws ProgramException if the program reads no images or recordings, or this does not fit
   */
  public void attach(Tensor media) {
    byte[][] dtypes = {Native.encoded("dtype", Native.required("media", media).dtype())};
    long chat = enter();
    try {
      Native.attach(chat, dtypes, new long[][] {media.shape()}, new ByteBuffer[] {media.data()});
    } finally {
      leave();
    }
  }

  /**
   * Answers a message; the answer is a turn of the chat.
   *
   * @throws ProgramException as {@link #say(String, Listener)}
   */
  public Answer say(String message) {
    return say(message, null);
  }

  /**
   * Answers a message; the answer is a turn of the chat.
   *
   * @param message the user's
   * @param listener receives the answer as it is generated; may be null
   * @throws ProgramException if the message does not fit into the context ({@link
   *     ProgramException.Code#CONTEXT_FULL}), or the program failed. The chat is as it was before the message.
   */
  public Answer say(String message, Listener listener) {
    byte[] encoded = Native.encoded("message", Native.required("message", message));
    Answering answering = new Answering(this, listener);
    long chat = enter();
    try {
      Native.say(chat, encoded, answering);
    } finally {
      leave();
    }
    return answering.answer();
  }

  /** Ends the current answer after its next token. For any thread; does not wait, and has no effect on a closed chat. */
  public synchronized void stop() {
    if (address() != 0) {
      Native.stop(address());
    }
  }

  /** The number of turns. */
  public int turns() {
    long chat = enter();
    try {
      return (int) Native.turns(chat);
    } finally {
      leave();
    }
  }

  /**
   * Keeps that many turns, and forgets later ones. Needs no computation.
   *
   * @param turns 0 begins a new conversation
   * @throws ProgramException if there are fewer
   */
  public void rewind(int turns) {
    if (turns < 0) {
      throw new ProgramException(
          ProgramException.Code.INVALID_ARGUMENT, "turns: got " + turns + ", expected a number that is not negative.");
    }
    long chat = enter();
    try {
      Native.rewind(chat, turns);
    } finally {
      leave();
    }
  }

  /**
   * Writes the conversation and its KV cache to a file: some megabytes.
   *
   * @throws ProgramException if the file cannot be written
   */
  public void save(File path) {
    long chat = enter();
    try {
      Native.saveChat(chat, Programs.encoded("path", Native.required("path", path)));
    } finally {
      leave();
    }
  }

  /**
   * Continues a saved conversation in place of this one, which an error leaves as it is.
   *
   * @throws ProgramException if the file is damaged, or another program, or other data, wrote it
   */
  public void restore(File path) {
    long chat = enter();
    try {
      Native.restoreChat(chat, Programs.encoded("path", Native.required("path", path)));
    } finally {
      leave();
    }
  }

  /**
   * Continues the conversation with another adapter. The next message reads the conversation's tokens once more. An
   * error leaves the chat as it is.
   *
   * @param program another program of the app, with the same tokenizer; null: the same program
   * @param data data files in place of the program's: an adapter's .ptd, beside its .manifest.json
   * @throws ProgramException if there is no such program, a file does not fit it, or the conversation does not fit into
   *     its context
   */
  public void switchAdapter(String program, File... data) {
    byte[][] files = Programs.encoded(data);
    long chat = enter();
    try {
      Native.switchAdapter(chat, Native.encoded("program", program), files);
    } finally {
      leave();
    }
  }

  /**
   * The tokens that a message would add now, with those of the chat format.
   *
   * @throws ProgramException if the message has no tokens, or too many bytes
   */
  public int countTokens(String message) {
    byte[] encoded = Native.encoded("message", Native.required("message", message));
    long chat = enter();
    try {
      return (int) Native.countTokens(chat, encoded);
    } finally {
      leave();
    }
  }

  /** Returns how many more tokens fit into the chat. */
  public int room() {
    long chat = enter();
    try {
      return (int) Native.room(chat);
    } finally {
      leave();
    }
  }

  /**
   * Closes the chat. Waits for calls in other threads; an answer ends after its next token. The second time, it has no
   * effect.
   *
   * @throws ProgramException if the listener of its answer calls it
   */
  @Override
  public void close() {
    end();
    super.close();
  }

  // Ends an answer, even one that has not begun, so that it can be closed. A listener cannot close it.
  void end() {
    if (!lock().isHeldByCurrentThread()) {
      ending = true;
      stop();
    }
  }

  boolean isEnding() {
    return ending;
  }

  @Override
  String what() {
    return "chat";
  }

  @Override
  void free(long opened) {
    Native.closeChat(opened);
  }
}
