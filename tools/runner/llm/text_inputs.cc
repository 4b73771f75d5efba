#include "tools/runner/llm/text_inputs.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace runner {
namespace {

constexpr size_t kMaxInputs = 3;

// The most tokens that the method reads.
Result<size_t> most_tokens(const std::string& title, const executorch::runtime::MethodMeta& method) {
  size_t most = 0;
  const size_t count = method.num_inputs();
  bool fits = count >= 1 && count <= kMaxInputs;
  for (size_t i = 0; fits && i < count; ++i) {
    const auto info = method.input_tensor_meta(i);
    fits = info.ok() && info->scalar_type() == executorch::aten::ScalarType::Long && info->sizes().size() == 2 &&
        info->sizes()[0] >= 1 && (i == 0 || info->sizes()[1] == static_cast<int32_t>(most));
    most = fits ? static_cast<size_t>(info->sizes()[1]) : 0;
  }
  if (!fits) {
    return error("--text: " + title + " does not take tokens, a mask and segments, each int64 (1, n), or the first " +
                 "of these; pass its inputs with --input.");
  }
  return most;
}

Array row(const std::vector<uint32_t>& values) {
  Array array;
  array.dtype = dtype_of(executorch::aten::ScalarType::Long);
  array.shape = {1, static_cast<int64_t>(values.size())};
  const std::vector<int64_t> wide(values.begin(), values.end());
  array.data.resize(wide.size() * sizeof(int64_t));
  memcpy(array.data.data(), wide.data(), array.data.size());
  return array;
}

}  // namespace

Result<TextReader> TextReader::read(const std::string& path, bool parse_special) {
  const JsonValue root = TRY(Tokenizer::read_file(path));
  TextReader reader;
  reader.tokenizer = TRY(Tokenizer::read(root, /*has_lengths=*/true));
  reader.special = TRY(SpecialTokens::read(root));
  reader.parse_special = parse_special;
  return reader;
}

Result<std::vector<Array>> TextReader::inputs(
    const std::vector<std::string>& texts,
    const std::string& title,
    const executorch::runtime::MethodMeta& method) const {
  const size_t most = TRY(most_tokens(title, method));
  std::vector<std::vector<uint32_t>> tokens;
  for (const std::string& text : texts) {
    tokens.push_back(TRY(tokenizer->encode({{text, /*is_user_text=*/!parse_special}})));
  }
  const MarkedTokens marked = TRY(special.mark(tokens));
  const size_t count = marked.tokens.size();
  if (count == 0 || count > most) {
    return error("--text has " + std::to_string(count) + " tokens, and " + title + " takes 1 to " + std::to_string(most) +
                 (count == 0 ? "; pass a longer text." : "; shorten it, or build the program with a larger max_length."));
  }
  if (method.num_inputs() == 1 && std::count(marked.mask.begin(), marked.mask.end(), 0U) > 0) {
    return error("--text: the tokenizer pads texts, and " + title + " takes no mask; set the file's \"padding\" to null.");
  }
  std::vector<Array> all = {row(marked.tokens), row(marked.mask), row(marked.segments)};
  all.resize(method.num_inputs());
  return all;
}

}  // namespace runner
