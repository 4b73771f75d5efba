#include "tools/runner/llm/language_model.h"

#include <algorithm>
#include <cstdlib>

#include "tools/runner/base/fail.h"
#include "tools/runner/tensors/inputs.h"

namespace runner {
namespace {

using executorch::aten::ScalarType;
using executorch::runtime::EValue;

constexpr char kContext[] = "get_max_context_len";
constexpr char kMost[] = "get_max_seq_len";
constexpr char kEnds[] = "get_eos_ids";
constexpr char kExact[] = "prefill_";
constexpr size_t kMostTokens = 1 << 24;

// N of "prefill_N"; 0: the method is none of those.
size_t exact_size(const std::string& method) {
  const size_t start = sizeof(kExact) - 1;
  if (method.compare(0, start, kExact) != 0) {
    return 0;
  }
  char* end = nullptr;
  const unsigned long size = strtoul(method.c_str() + start, &end, 10);
  return *end == '\0' && size <= kMostTokens ? size : 0;
}

Array integers(const int64_t* values, size_t count, std::vector<int64_t> shape) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values);
  return {dtype_of(ScalarType::Long), std::move(shape), {bytes, bytes + count * sizeof(int64_t)}};
}

template <class T>
void append(const executorch::aten::Tensor& tensor, size_t start, std::vector<float>& to) {
  const T* from = tensor.const_data_ptr<T>();
  for (size_t i = start; i < static_cast<size_t>(tensor.numel()); ++i) {
    to.push_back(static_cast<float>(from[i]));
  }
}

}  // namespace

bool LanguageModel::is_one(const Program& program) {
  return program.has(kContext) && (program.has("forward") || program.has("decode"));
}

LanguageModel::LanguageModel(Program& program) : program_(program) {
  if (!is_one(program)) {
    fail(program.path() + " is no language model: it wants a method \"forward\", or \"prefill\" and "
         "\"decode\", and \"" + kContext + "\"; --list prints its methods.");
  }
  context_ = size(kContext);
  find_readers(size(kMost));
  ends_ = constant(kEnds);
}

// Metadata are methods without inputs.
std::vector<int64_t> LanguageModel::constant(const std::string& method) {
  if (!program_.has(method)) {
    fail(program_.path() + " is no language model: it has no metadata method \"" + method + "\".");
  }
  std::vector<int64_t> values;
  for (const EValue& value : program_.method(method).run({})) {
    if (value.isInt()) {
      values.push_back(value.toInt());
    } else if (value.isIntList()) {
      const auto list = value.toIntList();
      values.insert(values.end(), list.begin(), list.end());
    } else {
      fail(program_.title(method) + " gives something that is no number.");
    }
  }
  return values;
}

uint64_t LanguageModel::size(const std::string& method) {
  const std::vector<int64_t> values = constant(method);
  if (values.size() != 1 || values[0] < 1 || values[0] > static_cast<int64_t>(kMostTokens)) {
    fail(program_.title(method) + " gives no number of tokens.");
  }
  return static_cast<uint64_t>(values[0]);
}

void LanguageModel::find_readers(size_t most) {
  if (program_.has("forward")) {
    readers_ = {{"forward", most, false}};
  } else {
    for (const std::string& method : program_.methods()) {
      if (exact_size(method) > 0) {
        readers_.push_back({method, exact_size(method), true});
      }
    }
    if (program_.has("prefill")) {
      readers_.push_back({"prefill", most, false});
    }
    readers_.push_back({"decode", 1, true});
    std::sort(readers_.begin(), readers_.end(), [](const Reader& one, const Reader& two) {
      return one.most > two.most;
    });
  }
  for (const Reader& reader : readers_) {
    check_form(reader.method);
    program_.method(reader.method);
  }
}

void LanguageModel::check_form(const std::string& method) const {
  const auto meta = program_.meta(method);
  bool fits = meta.num_inputs() == 2 && meta.num_outputs() >= 1;
  if (fits) {
    const auto tokens = meta.input_tensor_meta(0);
    const auto position = meta.input_tensor_meta(1);
    fits = tokens.ok() && tokens->scalar_type() == ScalarType::Long && tokens->sizes().size() == 2 &&
        position.ok() && position->scalar_type() == ScalarType::Long &&
        position->sizes().size() == 1;
  }
  if (!fits) {
    fail(program_.title(method) +
         " is no language model's: it wants tokens, int64 (1, n), and a position, int64 (1), and gives "
         "logits.");
  }
}

bool LanguageModel::ends_with(uint32_t token) const {
  return std::find(ends_.begin(), ends_.end(), int64_t{token}) != ends_.end();
}

size_t LanguageModel::next_count(size_t left) const {
  for (const Reader& reader : readers_) {
    if (reader.most <= left) {
      return reader.most;
    }
    if (!reader.is_exact && left > 1) {
      return left;
    }
  }
  return 1;
}

const std::vector<float>& LanguageModel::run(
    const uint32_t* tokens,
    size_t count,
    uint64_t position) {
  // The one that reads the fewest of those that can: for a single token a method of its own.
  const Reader* reader = &readers_.front();
  for (const Reader& other : readers_) {
    if (other.is_exact ? other.most == count : other.most >= count) {
      reader = &other;
    }
  }
  const std::vector<int64_t> values(tokens, tokens + count);
  const auto start = static_cast<int64_t>(position);
  const std::string title = program_.title(reader->method);
  const Inputs inputs = make_inputs(
      title,
      program_.meta(reader->method),
      {{integers(values.data(), count, {1, static_cast<int64_t>(count)}), "tokens"},
       {integers(&start, 1, {1}), "the position"}});
  const auto outputs = program_.method(reader->method).run(inputs.values);
  read_logits(title, outputs[0]);
  return logits_;
}

void LanguageModel::read_logits(const std::string& title, const EValue& output) {
  logits_.clear();
  if (!output.isTensor() || output.toTensor().dim() < 1 || output.toTensor().numel() == 0) {
    fail(title + " gives no logits.");
  }
  const executorch::aten::Tensor tensor = output.toTensor();
  // Those of the last token, where it gives those of all.
  const auto row = static_cast<size_t>(tensor.size(tensor.dim() - 1));
  const size_t start = static_cast<size_t>(tensor.numel()) - row;
  switch (tensor.scalar_type()) {
    case ScalarType::Float:
      return append<float>(tensor, start, logits_);
    case ScalarType::Half:
      return append<executorch::aten::Half>(tensor, start, logits_);
    case ScalarType::BFloat16:
      return append<executorch::aten::BFloat16>(tensor, start, logits_);
    default:
      fail(title + " gives logits that are no floating-point numbers.");
  }
}

}  // namespace runner
