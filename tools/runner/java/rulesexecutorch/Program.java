package rulesexecutorch;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.locks.ReentrantLock;

/** A loaded program, with memory of its own. {@link Programs#load(String)} returns it. */
public final class Program extends Handle implements AutoCloseable {
  private final Programs programs;
  // The last one; changes with the lock held.
  private volatile Chat chat;

  Program(Programs programs, long address) {
    super(address, new ReentrantLock());
    this.programs = programs;
  }

  /** Names of the methods, sorted. */
  public List<String> methods() {
    long session = enter();
    try {
      return Collections.unmodifiableList(Arrays.asList(Native.decoded(Native.methodNames(session))));
    } finally {
      leave();
    }
  }

  /**
   * Runs the method "forward", or the only one.
   *
   * @param inputs in the method's order, of its dtypes
   * @return copies of the outputs
   * @throws ProgramException if an input does not fit, or the program failed
   */
  public List<Tensor> run(Tensor... inputs) {
    return run(null, inputs);
  }

  /**
   * Runs a method. It is loaded when it first runs.
   *
   * @param method one of {@link #methods}
   * @param inputs in the method's order, of its dtypes
   * @return copies of the outputs
   * @throws ProgramException if there is no such method, an input does not fit, or the program failed
   */
  public List<Tensor> run(String method, Tensor... inputs) {
    byte[][] dtypes = new byte[Native.required("inputs", inputs).length][];
    long[][] shapes = new long[inputs.length][];
    ByteBuffer[] data = new ByteBuffer[inputs.length];
    for (int i = 0; i < inputs.length; i++) {
      Native.required("inputs", inputs[i]);
      dtypes[i] = Native.encoded("dtype", inputs[i].dtype());
      shapes[i] = inputs[i].shape();
      data[i] = inputs[i].data();
    }
    long session = enter();
    try {
      Object[] outputs = Native.run(session, Native.encoded("method", method), dtypes, shapes, data);
      List<Tensor> tensors = new ArrayList<Tensor>();
      for (int i = 0; i < outputs.length; i += 3) {
        ByteBuffer values = ((ByteBuffer) outputs[i + 2]).order(ByteOrder.nativeOrder());
        tensors.add(new Tensor((String) outputs[i], (long[]) outputs[i + 1], values));
      }
      return tensors;
    } finally {
      leave();
    }
  }

  /**
   * Opens a chat with the default options.
   *
   * @throws ProgramException as {@link #chat(Chat.Options)}
   */
  public Chat chat() {
    return chat(new Chat.Options());
  }

  /**
   * Opens a chat in the program's KV cache. A program has one chat at a time; load it once more for another.
   *
   * @throws ProgramException if the program is not a language model, or a file is missing
   */
  public Chat chat(Chat.Options options) {
    long session = enter();
    try {
      if (chat != null && chat.address() != 0) {
        throw new ProgramException(
            ProgramException.Code.INVALID_ARGUMENT,
            "This program has an open chat. Close it, or load the program once more.");
      }
      chat = new Chat(Native.required("options", options).open(session), lock());
      return chat;
    } finally {
      leave();
    }
  }

  /**
   * Closes the program and its chat. Waits for calls in other threads; an answer ends after its next token. The second
   * time, it has no effect.
   *
   * @throws ProgramException if the listener of an answer calls it
   */
  @Override
  public void close() {
    Chat answering = chat;
    if (answering != null) {
      answering.end();
    }
    super.close();
    programs.forget(this);
  }

  @Override
  String what() {
    return "program";
  }

  @Override
  void free(long opened) {
    if (chat != null) {
      chat.release();
    }
    Native.closeSession(opened);
  }
}
