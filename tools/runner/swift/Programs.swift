import ExecutorchApp
import Foundation

/// The problem, as one sentence.
public struct ProgramError: LocalizedError {
  /// Kinds of failures, as `executorch_app_code`.
  public enum Code: UInt32 {
    /// An argument is wrong: no such program or method, or an input that does not fit the method.
    case invalidArgument = 1
    /// A file is missing, damaged, or not the one that the program was built with.
    case invalidFiles
    /// The runtime cannot load the program or the method.
    case notLoaded
    /// The program failed while it ran.
    case failed
    /// The message does not fit into what is left of the context; rewind, or shorten it.
    case contextFull
  }

  /// The kind of failure.
  public let code: Code
  /// The sentence.
  public let sentence: String

  public var errorDescription: String? { sentence }

  // Calls a function of executorch_app.h, and throws if it fails.
  static func check(
    _ function: (UnsafeMutablePointer<executorch_app_error>) -> executorch_app_code
  ) throws {
    var error = executorch_app_error()
    let code = function(&error)
    if code.rawValue == 0 {
      return
    }
    let sentence = withUnsafePointer(to: &error.sentence) { sentence in
      sentence.withMemoryRebound(to: CChar.self, capacity: MemoryLayout.size(ofValue: sentence.pointee)) {
        String(cString: $0)
      }
    }
    throw ProgramError(code: Code(rawValue: UInt32(code.rawValue)) ?? .failed, sentence: sentence)
  }

  // A text of C ends with its first zero.
  static func check(_ name: String, _ text: String?) throws {
    if text?.utf8.contains(0) == true {
      throw ProgramError(
        code: .invalidArgument,
        sentence: "\(name): got a text with the character U+0000, expected one without.")
    }
  }
}

/// An app's programs, or a program's files.
///
/// A program keeps its `Programs`, and a chat its program, so they are freed in the right order. Programs may run in
/// several threads; one program and its chat belong to one thread at a time, except `Chat.stop`: calls in another thread
/// throw an error meanwhile. So do calls of a listener for its own chat and program, but `Chat.stop`.
public final class Programs {
  let app: OpaquePointer

  /// Opens an app: maps its files and checks them.
  ///
  /// - Parameters:
  ///   - url: an app's folder, its manifest.json, or a .pte file.
  ///   - data: a .pte file's data files, if its manifest has other ones or none.
  ///   - verify: whether to check the files' SHA-256, too.
  ///   - weightCache: whether XNNPACK packs common weights once for all programs. True: an error if that is unsafe; nil:
  ///     where the manifests prove that it is safe.
  ///   - variants: programs to take where they are among variants, whatever the device is.
  ///   - device: facts in place of the device's own: `["ram_gb": "6"]`.
  ///   - state: a folder that remembers variants whose loading ended the process, so that they are not tried again.
  public init(
    _ url: URL, data: [URL] = [], verify: Bool = false, weightCache: Bool? = nil, variants: [String] = [],
    device: [String: String] = [:], state: URL? = nil
  ) throws {
    var opened: OpaquePointer?
    try ProgramError.check("url", url.path)
    try withTexts("data", data.map(\.path)) { files in
      try withTexts("variants", variants) { forced in
        try withTexts("device", device.map { "\($0.key)=\($0.value)" }.sorted()) { facts in
          try withTexts("state", [state?.path].compactMap { $0 }) { folder in
            var options = executorch_app_open_options()
            options.data = files.baseAddress
            options.data_count = files.count
            options.verify = verify
            options.weight_cache = weightCache == true
            options.no_weight_cache = weightCache == false
            options.variants = forced.baseAddress
            options.variant_count = forced.count
            options.device = facts.baseAddress
            options.device_count = facts.count
            options.state = folder.first ?? nil
            try ProgramError.check { executorch_app_open(url.path, &options, &opened, $0) }
          }
        }
      }
    }
    app = opened!
  }

  /// The choice among variants of the app, as a JSON object: "program"; "skipped", better ones that the device cannot have,
  /// each with "program" and "reason"; and "device", the facts that somebody asked for. nil: it has no such variants.
  ///
  /// - Parameter name: the variants'; nil: the only ones.
  public func variant(_ name: String? = nil) -> String? {
    executorch_app_variant(app, name).map { String(cString: $0) }
  }

  deinit {
    executorch_app_close(app)
  }

  /// Names of the programs; of a .pte file its path.
  public var names: [String] {
    (0..<executorch_app_program_count(app)).compactMap { index in
      executorch_app_program_name(app, index).map { String(cString: $0) }
    }
  }

  /// Loads a program with memory of its own. Programs share the mapped files.
  ///
  /// - Parameter name: one of `names`; nil: the only one.
  public func load(_ name: String? = nil) throws -> Program {
    var opened: OpaquePointer?
    try ProgramError.check("name", name)
    try ProgramError.check { executorch_app_open_session(app, name, &opened, $0) }
    return Program(self, session: opened!)
  }
}

// Texts of C for the time of a call; `name` is the argument's, for errors.
func withTexts<Result>(
  _ name: String, _ texts: [String], _ call: (UnsafeBufferPointer<UnsafePointer<CChar>?>) throws -> Result
) throws -> Result {
  for text in texts {
    try ProgramError.check(name, text)
  }
  let copies = texts.map { strdup($0) }
  defer { copies.forEach { free($0) } }
  return try copies.map { UnsafePointer($0) }.withUnsafeBufferPointer(call)
}
