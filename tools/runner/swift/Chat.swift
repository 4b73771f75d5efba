import ExecutorchApp
import Foundation

/// A conversation with a language model. `Program.chat` returns it.
public final class Chat {
  /// Zero is each number's default.
  public struct Options {
    /// A tokenizer.json, with chat_format.json beside it; nil: the app's.
    public var tokenizer: URL?
    /// The system message; nil: the chat template's.
    public var system: String?
    /// True: messages are the model's whole input, without a chat format.
    public var raw = false
    /// 0: the most likely token; 1: the model's distribution.
    public var temperature = 0.0
    /// Of the random numbers; 0: a random one.
    public var seed: UInt32 = 0
    /// The maximum tokens of an answer; 0: 256.
    public var maxNewTokens: UInt32 = 0
    /// True: special tokens in messages, such as "<|im_end|>", are tokens; false: they are text.
    public var parseSpecial = false
    /// True: an error, if the chat template has no second message.
    public var multiTurn = false

    public init() {}
  }

  /// An answer of a language model.
  public struct Answer {
    /// All of it.
    public let text: String
    /// The reason why it ended: "end", "length", "context" or "stopped".
    public let reason: String
    /// The tokens of the message.
    public let promptTokens: Int
    /// The tokens of the answer.
    public let tokens: Int
    /// Milliseconds of reading the message.
    public let prefillMs: Double
    /// Calls with one token.
    public let decodeTokens: Int
    /// Milliseconds of the calls with one token.
    public let decodeMs: Double
  }

  private let chat: OpaquePointer
  // Freed after this.
  private let program: Program

  init(_ program: Program, _ options: Options) throws {
    var opened: OpaquePointer?
    try withText("tokenizer", options.tokenizer?.path) { tokenizer in
      try withText("system", options.system) { system in
        // An initializer with arguments would need every member that the interface ever gets.
        var given = executorch_app_chat_options()
        given.tokenizer = tokenizer
        given.system = system
        given.raw = options.raw
        given.temperature = options.temperature
        given.seed = options.seed
        given.max_new_tokens = options.maxNewTokens
        given.parse_special = options.parseSpecial
        given.multi_turn = options.multiTurn
        try ProgramError.check { executorch_app_open_chat(program.session, &given, &opened, $0) }
      }
    }
    self.program = program
    chat = opened!
  }

  deinit {
    executorch_app_close_chat(chat)
  }

  /// Gives an image or a recording to the next message, and runs the program's encoder. The message has a place for
  /// each, in the order of these calls: the token that the metadata get_media_token_id name, such as "<image>", once or
  /// as often as it has positions. Rewinding forgets what no message has said yet.
  ///
  /// - Parameter media: the input of the program's vision_encoder or audio_encoder.
  public func attach(_ media: Tensor) throws {
    try ProgramError.check("dtype", media.dtype)
    try withTensors([media]) { tensors in
      try ProgramError.check { executorch_app_attach(chat, tensors, $0) }
    }
  }

  /// Answers a message; the answer is a turn of the chat. After an error the chat is as it was before the message.
  ///
  /// - Parameters:
  ///   - message: the user's.
  ///   - listener: receives parts of the answer, in whole characters; false ends the answer. Of this chat and its
  ///     program it may only call `stop`, `turns` and `room`; other calls throw an error.
  public func say(_ message: String, listener: @escaping (String) -> Bool = { _ in true }) throws -> Answer {
    try ProgramError.check("message", message)
    let hearing = Hearing(listener)
    var answer = executorch_app_answer()
    try withExtendedLifetime(hearing) {
      try ProgramError.check {
        executorch_app_say(
          chat, message,
          { text, size, user in
            let part = String(decoding: UnsafeRawBufferPointer(start: text, count: size), as: UTF8.self)
            return Unmanaged<Hearing>.fromOpaque(user!).takeUnretainedValue().hear(part)
          },
          Unmanaged.passUnretained(hearing).toOpaque(), &answer, $0)
      }
    }
    return Answer(
      text: hearing.text, reason: String(cString: answer.reason), promptTokens: answer.prompt_tokens,
      tokens: answer.tokens, prefillMs: answer.prefill_ms, decodeTokens: answer.decode_tokens,
      decodeMs: answer.decode_ms)
  }

  /// Ends the current answer after its next token; for any thread.
  public func stop() {
    executorch_app_stop(chat)
  }

  /// The number of turns.
  public var turns: Int { executorch_app_turns(chat) }

  /// The number of tokens that still fit into the chat.
  public var room: Int { executorch_app_room(chat) }

  /// Keeps that many turns, and forgets later ones; 0 begins a new conversation.
  public func rewind(to turns: Int) throws {
    if turns < 0 {
      throw ProgramError(
        code: .invalidArgument, sentence: "turns: got \(turns), expected a number that is not negative.")
    }
    try ProgramError.check { executorch_app_rewind(chat, turns, $0) }
  }

  /// Writes the conversation and its KV cache to a file.
  public func save(to url: URL) throws {
    try ProgramError.check("url", url.path)
    try ProgramError.check { executorch_app_save_chat(chat, url.path, $0) }
  }

  /// Continues a saved conversation in place of this one, which an error leaves as it is.
  public func restore(from url: URL) throws {
    try ProgramError.check("url", url.path)
    try ProgramError.check { executorch_app_restore_chat(chat, url.path, $0) }
  }

  /// Continues the conversation with another adapter. The next message reads the conversation's tokens once more. An
  /// error leaves the chat as it is.
  ///
  /// - Parameters:
  ///   - program: another program of the app that has the same tokenizer; nil: the same one.
  ///   - data: data files in place of the program's: an adapter's .ptd, with its .manifest.json beside it.
  public func switchAdapter(to program: String? = nil, data: [URL] = []) throws {
    try ProgramError.check("program", program)
    try withTexts("data", data.map(\.path)) { files in
      try ProgramError.check {
        executorch_app_switch_adapter(chat, program, files.baseAddress, files.count, $0)
      }
    }
  }

  /// The tokens that a message would add now, with those of the chat format.
  public func countTokens(_ message: String) throws -> Int {
    var count = 0
    try ProgramError.check("message", message)
    try ProgramError.check { executorch_app_count_tokens(chat, message, &count, $0) }
    return count
  }
}

// The pieces for an answer's listener, and the whole text.
private final class Hearing {
  private(set) var text = ""
  private let listener: (String) -> Bool

  init(_ listener: @escaping (String) -> Bool) {
    self.listener = listener
  }

  func hear(_ part: String) -> Bool {
    text += part
    return listener(part)
  }
}

// A text of C for the time of a call; nil is NULL, and `name` the argument's, for errors.
private func withText<Result>(
  _ name: String, _ text: String?, _ call: (UnsafePointer<CChar>?) throws -> Result
) throws -> Result {
  try ProgramError.check(name, text)
  guard let text else {
    return try call(nil)
  }
  return try text.withCString(call)
}
