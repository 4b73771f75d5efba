// Encodes texts, and decodes them again: for comparing the runner's tokenizer with Hugging Face's.
//
//     tokenize TOKENIZER.json < texts, each ended by a zero byte
//
// With a second argument "said", a byte of value 1 stands before and after what a user said. With "marked", a byte of
// value 1 stands between two texts, and special tokens are put around them.
//
// Prints two lines of JSON for each: the tokens, and the text of these; with "marked", the segments instead of the text.

#include <unistd.h>

#include <string>

#include "tools/runner/base/files.h"
#include "tools/runner/base/json.h"
#include "tools/runner/base/process.h"
#include "tools/runner/base/text.h"
#include "tools/runner/llm/special_tokens.h"
#include "tools/runner/llm/tokenizer.h"

namespace {

using runner::Result;
using runner::Status;

std::vector<runner::TextPart> parts_of(const std::string& text, bool has_said) {
  std::vector<runner::TextPart> parts = {{""}};
  for (const char c : text) {
    if (has_said && c == 1) {
      parts.push_back({"", !parts.back().is_user_text});
    } else {
      parts.back().text += c;
    }
  }
  return parts;
}

Result<std::string> encoded(const runner::Tokenizer& tokenizer, const std::string& text, bool has_said) {
  const std::vector<uint32_t> tokens = TRY(tokenizer.encode(parts_of(text, has_said)));
  const std::string decoded = TRY(tokenizer.decode(tokens));
  return nlohmann::json(tokens).dump() + "\n" + nlohmann::json(runner::repaired(decoded)).dump() + "\n";
}

Result<std::string> marked(
    const runner::Tokenizer& tokenizer,
    const runner::SpecialTokens& special,
    const std::string& texts) {
  std::vector<std::vector<uint32_t>> tokens;
  for (size_t start = 0, end = 0; end != std::string::npos; start = end + 1) {
    end = texts.find(1, start);
    tokens.push_back(TRY(tokenizer.encode({{texts.substr(start, end - start)}})));
  }
  const runner::MarkedTokens all = TRY(special.mark(tokens));
  return nlohmann::json(all.tokens).dump() + "\n" + nlohmann::json(all.segments).dump() + "\n";
}

Status tokenize(const std::string& path, const std::string& mode) {
  const runner::JsonValue root = TRY(runner::Tokenizer::read_file(path));
  const auto tokenizer = TRY(runner::Tokenizer::read(root, /*has_lengths=*/mode == "marked"));
  const auto special = TRY(runner::SpecialTokens::read(root));
  std::string input;
  char piece[4096];
  for (ssize_t length = 0; (length = read(STDIN_FILENO, piece, sizeof(piece))) > 0;) {
    input.append(piece, static_cast<size_t>(length));
  }
  std::string output;
  for (size_t start = 0, end = 0; (end = input.find('\0', start)) != std::string::npos;
       start = end + 1) {
    const std::string text = input.substr(start, end - start);
    output += TRY(mode == "marked" ? marked(*tokenizer, special, text) : encoded(*tokenizer, text, mode == "said"));
  }
  return runner::write_to_stdout(output);
}

}  // namespace

int main(int count, char** arguments) {
  const Status status = tokenize(arguments[1], count > 2 ? arguments[2] : "");
  if (!status.ok()) {
    runner::print_error(status.sentence());
  }
  return status.ok() ? 0 : 1;
}
