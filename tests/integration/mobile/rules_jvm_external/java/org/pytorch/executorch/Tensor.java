package org.pytorch.executorch;

/** A fake: upstream's signatures, as its documentation of Java lists them, without code. */
public abstract class Tensor {
  public static Tensor fromBlob(float[] data, long[] shape) {
    throw new UnsupportedOperationException();
  }

  public float[] getDataAsFloatArray() {
    throw new UnsupportedOperationException();
  }
}
