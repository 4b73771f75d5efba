package org.pytorch.executorch;

/** A fake: upstream's signatures, as its documentation of Java lists them, without code. */
public class EValue {
  public static EValue from(Tensor tensor) {
    throw new UnsupportedOperationException();
  }

  public Tensor toTensor() {
    throw new UnsupportedOperationException();
  }
}
