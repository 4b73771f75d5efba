package org.pytorch.executorch.extension.llm;

/** A fake: upstream's signatures, as its documentation of Java lists them, without code. */
public interface LlmCallback {
  void onResult(String result);

  default void onStats(String stats) {}

  default void onError(int errorCode, String message) {}
}
