package rulesexecutorch;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/** An array of numbers in row-major order, outside of Java's heap. */
public final class Tensor {
  private final String dtype;
  private final long[] shape;
  private final ByteBuffer data;

  Tensor(String dtype, long[] shape, ByteBuffer data) {
    this.dtype = dtype;
    this.shape = shape;
    this.data = data;
  }

  /**
   * A tensor of any dtype.
   *
   * @param dtype NumPy's name, such as "float32", "int64" or "bool"; also "bfloat16"
   * @param data the numbers, in the machine's byte order, from the buffer's position to its limit. A direct buffer is
   *     used as it is, another one is copied.
   * @param shape the sizes of the dimensions; none: one number
   */
  public static Tensor of(String dtype, ByteBuffer data, long... shape) {
    Native.required("dtype", dtype);
    Native.required("shape", shape);
    ByteBuffer own;
    if (Native.required("data", data).isDirect()) {
      own = data.slice();
    } else {
      own = ByteBuffer.allocateDirect(data.remaining());
      own.put(data.duplicate());
      own.rewind();
    }
    return new Tensor(dtype, shape.clone(), own.order(ByteOrder.nativeOrder()));
  }

  /** A copy of numbers as float32. */
  public static Tensor of(float[] values, long... shape) {
    Native.required("shape", shape);
    ByteBuffer data = allocate(Native.required("values", values).length, Float.SIZE);
    data.asFloatBuffer().put(values);
    return new Tensor("float32", shape.clone(), data);
  }

  /** A copy of numbers as float64. */
  public static Tensor of(double[] values, long... shape) {
    Native.required("shape", shape);
    ByteBuffer data = allocate(Native.required("values", values).length, Double.SIZE);
    data.asDoubleBuffer().put(values);
    return new Tensor("float64", shape.clone(), data);
  }

  /** A copy of numbers as int64. */
  public static Tensor of(long[] values, long... shape) {
    Native.required("shape", shape);
    ByteBuffer data = allocate(Native.required("values", values).length, Long.SIZE);
    data.asLongBuffer().put(values);
    return new Tensor("int64", shape.clone(), data);
  }

  /** A copy of numbers as int32. */
  public static Tensor of(int[] values, long... shape) {
    Native.required("shape", shape);
    ByteBuffer data = allocate(Native.required("values", values).length, Integer.SIZE);
    data.asIntBuffer().put(values);
    return new Tensor("int32", shape.clone(), data);
  }

  /** NumPy's name: "float32". */
  public String dtype() {
    return dtype;
  }

  /** A copy of the sizes of the dimensions. */
  public long[] shape() {
    return shape.clone();
  }

  /** The numbers in the machine's byte order: a direct buffer on the tensor's own memory, from its beginning. */
  public ByteBuffer data() {
    ByteBuffer view = data.duplicate();
    view.clear();
    return view.order(ByteOrder.nativeOrder());
  }

  /**
   * A copy of the numbers.
   *
   * @throws ProgramException if the dtype is not float32
   */
  public float[] floats() {
    float[] values = new float[length("float32", Float.SIZE)];
    data().asFloatBuffer().get(values);
    return values;
  }

  /**
   * A copy of the numbers.
   *
   * @throws ProgramException if the dtype is not float64
   */
  public double[] doubles() {
    double[] values = new double[length("float64", Double.SIZE)];
    data().asDoubleBuffer().get(values);
    return values;
  }

  /**
   * A copy of the numbers.
   *
   * @throws ProgramException if the dtype is not int64
   */
  public long[] longs() {
    long[] values = new long[length("int64", Long.SIZE)];
    data().asLongBuffer().get(values);
    return values;
  }

  /**
   * A copy of the numbers.
   *
   * @throws ProgramException if the dtype is not int32
   */
  public int[] ints() {
    int[] values = new int[length("int32", Integer.SIZE)];
    data().asIntBuffer().get(values);
    return values;
  }

  /** Dtype and shape, such as "float32 [1, 10]". */
  @Override
  public String toString() {
    return dtype + " " + Arrays.toString(shape);
  }

  private int length(String expected, int bits) {
    if (!dtype.equals(expected)) {
      throw new ProgramException(
          ProgramException.Code.INVALID_ARGUMENT,
          "dtype of a tensor: got \"" + dtype + "\", expected \"" + expected + "\". Read it with data().");
    }
    return data.capacity() / (bits / Byte.SIZE);
  }

  private static ByteBuffer allocate(int count, int bits) {
    long size = (long) count * (bits / Byte.SIZE);
    if (size > Integer.MAX_VALUE) {
      throw new ProgramException(
          ProgramException.Code.INVALID_ARGUMENT,
          "a tensor: got " + size + " bytes, expected at most " + Integer.MAX_VALUE + ", which a ByteBuffer holds.");
    }
    return ByteBuffer.allocateDirect((int) size).order(ByteOrder.nativeOrder());
  }
}
