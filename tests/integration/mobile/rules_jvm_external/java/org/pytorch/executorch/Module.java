package org.pytorch.executorch;

/** A fake: upstream's signatures, as its documentation of Java lists them, without code. */
public class Module {
  public static Module load(String modelPath) {
    throw new UnsupportedOperationException();
  }

  public EValue[] forward(EValue... inputs) {
    throw new UnsupportedOperationException();
  }

  public void destroy() {}
}
