// Encodes texts, and decodes them again: for comparing the runner's tokenizer with Hugging Face's.
//
//     tokenize TOKENIZER.json < texts, each ended by a zero byte
//
// Prints two lines of JSON for each: the tokens, and the text of these.

#include <unistd.h>

#include <string>

#include "tools/runner/base/fail.h"
#include "tools/runner/base/json.h"
#include "tools/runner/base/output.h"
#include "tools/runner/llm/tokenizer.h"
#include "tools/runner/llm/utf8.h"

int main(int, char** arguments) {
  const runner::Tokenizer tokenizer(arguments[1]);
  std::string input;
  char piece[4096];
  for (ssize_t length = 0; (length = read(STDIN_FILENO, piece, sizeof(piece))) > 0;) {
    input.append(piece, static_cast<size_t>(length));
  }
  std::string output;
  for (size_t start = 0, end = 0; (end = input.find('\0', start)) != std::string::npos;
       start = end + 1) {
    const auto tokens = tokenizer.encode(input.substr(start, end - start));
    output += nlohmann::json(tokens).dump() + "\n";
    output += nlohmann::json(runner::repaired(tokenizer.decode(tokens))).dump() + "\n";
  }
  runner::print(output);
}
