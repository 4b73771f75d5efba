package org.pytorch.executorch.extension.llm;

/** A fake: upstream's signatures, as its documentation of Java lists them, without code. */
public class LlmModule {
  public LlmModule(String modulePath, String tokenizerPath, float temperature, String dataPath) {}

  public int generate(String prompt, int seqLen, LlmCallback llmCallback, boolean echo) {
    throw new UnsupportedOperationException();
  }

  public void resetNative() {}
}
