// Encodes texts, and decodes them again: for comparing the runner's tokenizer with Hugging Face's.
//
//     tokenize TOKENIZER.json < texts, each ended by a zero byte
//
// With a second argument, any, a byte of value 1 stands before and after what a user said.
//
// Prints two lines of JSON for each: the tokens, and the text of these.

#include <unistd.h>

#include <string>

#include "tools/runner/base/files.h"
#include "tools/runner/base/json.h"
#include "tools/runner/base/process.h"
#include "tools/runner/base/text.h"
#include "tools/runner/llm/tokenizer.h"

namespace {

using runner::Status;

std::vector<runner::TextPart> parts_of(const std::string& text, bool has_said) {
  std::vector<runner::TextPart> parts = {{""}};
  for (const char c : text) {
    if (has_said && c == 1) {
      parts.push_back({"", !parts.back().is_said});
    } else {
      parts.back().text += c;
    }
  }
  return parts;
}

Status tokenize(const std::string& path, bool has_said) {
  const auto tokenizer = TRY(runner::Tokenizer::read(path));
  std::string input;
  char piece[4096];
  for (ssize_t length = 0; (length = read(STDIN_FILENO, piece, sizeof(piece))) > 0;) {
    input.append(piece, static_cast<size_t>(length));
  }
  std::string output;
  for (size_t start = 0, end = 0; (end = input.find('\0', start)) != std::string::npos;
       start = end + 1) {
    const std::string text = input.substr(start, end - start);
    const std::vector<uint32_t> tokens = TRY(tokenizer->encode(parts_of(text, has_said)));
    const std::string decoded = TRY(tokenizer->decode(tokens));
    output += nlohmann::json(tokens).dump() + "\n";
    output += nlohmann::json(runner::repaired(decoded)).dump() + "\n";
  }
  return runner::write_to_stdout(output);
}

}  // namespace

int main(int count, char** arguments) {
  const Status status = tokenize(arguments[1], count > 2);
  if (!status.ok()) {
    runner::print_error(status.sentence());
  }
  return status.ok() ? 0 : 1;
}
