import ExecuTorch
import Foundation

/// A task's program with the foundation that all tasks share.
final class TaskModel {
  private let module: Module

  /// - Parameter name: The target of the program: "task_1".
  init(name: String, files: URL) throws {
    module = Module(
      filePath: files.appendingPathComponent("programs/\(name).pte").path,
      dataFilePaths: [files.appendingPathComponent("data/foundation.ptd").path],
      loadMode: .mmap
    )
    try module.load("forward")
  }

  /// - Parameter features: 8 numbers.
  /// - Returns: A score for each line of labels.txt.
  func scores(_ features: [Float]) throws -> [Float] {
    let input = Tensor<Float>(features, shape: [1, features.count])
    let output: Tensor<Float> = try module.forward(input)
    return output.scalars()
  }
}
