import ExecutorchApp
import Foundation

/// An array in row-major order.
public struct Tensor {
  /// NumPy's name, such as "float32" or "int64"; also "bfloat16".
  public let dtype: String
  /// The sizes of the dimensions; empty: one number.
  public let shape: [Int64]
  /// The numbers, in the machine's byte order.
  public let data: Data

  public init(dtype: String, shape: [Int64], data: Data) {
    self.dtype = dtype
    self.shape = shape
    self.data = data
  }

  /// A copy of numbers as float32.
  public init(_ values: [Float], shape: [Int64]) {
    self.init(dtype: "float32", shape: shape, data: values.withUnsafeBytes { Data($0) })
  }

  /// A copy of numbers as int64.
  public init(_ values: [Int64], shape: [Int64]) {
    self.init(dtype: "int64", shape: shape, data: values.withUnsafeBytes { Data($0) })
  }

  /// A copy of the numbers; nil: the dtype is not float32.
  public var floats: [Float]? { dtype == "float32" ? numbers() : nil }

  /// A copy of the numbers; nil: the dtype is not int64.
  public var longs: [Int64]? { dtype == "int64" ? numbers() : nil }

  private func numbers<Number: Numeric>() -> [Number] {
    var values = [Number](repeating: 0, count: data.count / MemoryLayout<Number>.stride)
    _ = values.withUnsafeMutableBytes { data.copyBytes(to: $0) }
    return values
  }
}

/// A loaded program. `Programs.load` returns it.
public final class Program {
  let session: OpaquePointer
  // Freed after this.
  private let programs: Programs

  init(_ programs: Programs, session: OpaquePointer) {
    self.programs = programs
    self.session = session
  }

  deinit {
    executorch_app_close_session(session)
  }

  /// Names of the methods, sorted.
  public var methods: [String] {
    (0..<executorch_app_method_count(session)).compactMap { index in
      executorch_app_method_name(session, index).map { String(cString: $0) }
    }
  }

  /// Runs a method. It is loaded when it first runs.
  ///
  /// - Parameters:
  ///   - inputs: in the method's order, of its dtypes.
  ///   - method: one of `methods`; nil: "forward", or the only one.
  /// - Returns: copies of the outputs.
  public func run(_ inputs: [Tensor], method: String? = nil) throws -> [Tensor] {
    var outputs: UnsafePointer<executorch_app_tensor>?
    var count = 0
    try ProgramError.check("method", method)
    try inputs.forEach { try ProgramError.check("dtype", $0.dtype) }
    // Each input is a call in the one before it.
    if inputs.count > mostInputs {
      throw ProgramError(
        code: .invalidArgument, sentence: "inputs: got \(inputs.count), expected at most \(mostInputs).")
    }
    try withTensors(inputs[...]) { tensors in
      try ProgramError.check {
        executorch_app_run(session, method, tensors, tensors.count, &outputs, &count, $0)
      }
    }
    return UnsafeBufferPointer(start: outputs, count: count).map { output in
      Tensor(
        dtype: String(cString: output.dtype),
        shape: Array(UnsafeBufferPointer(start: output.shape, count: output.rank)),
        data: output.size > 0 ? Data(bytes: output.data, count: output.size) : Data())
    }
  }

  /// Opens a chat in the program's KV cache. A program has one chat at a time.
  public func chat(_ options: Chat.Options = Chat.Options()) throws -> Chat {
    try Chat(self, options)
  }
}

private let mostInputs = 256

// Tensors of C for the time of a call: each of `inputs`, after those of `before`.
func withTensors<Result>(
  _ inputs: ArraySlice<Tensor>,
  _ before: [executorch_app_tensor] = [],
  _ call: ([executorch_app_tensor]) throws -> Result
) rethrows -> Result {
  guard let input = inputs.first else {
    return try call(before)
  }
  return try input.dtype.withCString { dtype in
    try input.shape.withUnsafeBufferPointer { shape in
      try input.data.withUnsafeBytes { data in
        let tensor = executorch_app_tensor(
          dtype: dtype, shape: shape.baseAddress, rank: shape.count, data: data.baseAddress,
          size: data.count, name: nil)
        return try withTensors(inputs.dropFirst(), before + [tensor], call)
      }
    }
  }
}
