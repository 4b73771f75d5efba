#include "tools/runner/llm/language_model.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "tools/runner/base/os.h"

namespace runner {
namespace {

using executorch::aten::ScalarType;
using executorch::runtime::EValue;

constexpr char kContext[] = "get_max_context_len";
constexpr char kMost[] = "get_max_seq_len";
constexpr char kEnds[] = "get_eos_ids";
constexpr char kState[] = "use_recurrent_state";
constexpr char kExact[] = "prefill_";
constexpr char kEmbedding[] = "token_embedding";
constexpr char kDecoder[] = "text_decoder";
constexpr const char* kEncoders[] = {"vision_encoder", "audio_encoder"};
constexpr char kMediaToken[] = "get_media_token_id";
constexpr size_t kLargestSize = 1 << 24;

// N of "prefill_N"; 0: another method.
size_t exact_size(const std::string& method) {
  const size_t start = sizeof(kExact) - 1;
  if (method.compare(0, start, kExact) != 0) {
    return 0;
  }
  char* end = nullptr;
  const unsigned long size = strtoul(method.c_str() + start, &end, 10);
  return *end == '\0' && size <= kLargestSize ? size : 0;
}

bool reads_embeddings(const Program& program) {
  return program.has(kEmbedding) && program.has(kDecoder);
}

ArrayView integers(const int64_t* values, size_t count, std::vector<int64_t> shape) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values);
  return {dtype_of(ScalarType::Long), std::move(shape), bytes, count * sizeof(int64_t)};
}

template <class T>
void append(const executorch::aten::Tensor& tensor, size_t start, std::vector<float>& to) {
  const T* from = tensor.const_data_ptr<T>();
  for (size_t i = start; i < static_cast<size_t>(tensor.numel()); ++i) {
    to.push_back(static_cast<float>(from[i]));
  }
}

}  // namespace

bool LanguageModel::is_language_model(const Program& program) {
  return program.has(kContext) && (program.has("forward") || program.has("decode") || reads_embeddings(program));
}

Result<LanguageModel> LanguageModel::open(Program& program) {
  if (!is_language_model(program)) {
    return error(program.path() + " is not a language model: expected a method \"forward\", or \"prefill\" and "
                 "\"decode\", and \"" + kContext + "\"; --list prints its methods.");
  }
  LanguageModel model(program);
  model.reads_embeddings_ = reads_embeddings(program);
  model.context_ = TRY(model.size(kContext));
  const size_t most = TRY(model.size(kMost));
  TRY(model.find_readers(most));
  model.ends_ = TRY(model.constant(kEnds));
  model.keeps_state_ = program.has(kState);
  return model;
}

// Metadata are methods without inputs.
Result<std::vector<int64_t>> LanguageModel::constant(const std::string& method) const {
  if (!program_->has(method)) {
    return error(program_->path() + " is not a language model: it has no metadata method \"" + method + "\".");
  }
  std::vector<int64_t> values;
  Method& metadata = *TRY(program_->method(method));
  for (const EValue& value : TRY(metadata.run({}))) {
    if (value.isInt()) {
      values.push_back(value.toInt());
    } else if (value.isIntList()) {
      const auto list = value.toIntList();
      values.insert(values.end(), list.begin(), list.end());
    } else {
      return error(program_->title(method) + " returns something that is not a number.");
    }
  }
  return values;
}

Result<uint64_t> LanguageModel::size(const std::string& method) const {
  const std::vector<int64_t> values = TRY(constant(method));
  if (values.size() != 1 || values[0] < 1 || values[0] > static_cast<int64_t>(kLargestSize)) {
    return error(program_->title(method) + " returns no number of tokens.");
  }
  return static_cast<uint64_t>(values[0]);
}

Status LanguageModel::find_readers(size_t most) {
  if (reads_embeddings_) {
    readers_ = {{kDecoder, most, false}};
  } else if (program_->has("forward")) {
    readers_ = {{"forward", most, false}};
  } else {
    for (const std::string& method : program_->methods()) {
      if (exact_size(method) > 0) {
        readers_.push_back({method, exact_size(method), true});
      }
    }
    if (program_->has("prefill")) {
      readers_.push_back({"prefill", most, false});
    }
    readers_.push_back({"decode", 1, true});
    std::sort(readers_.begin(), readers_.end(), [](const Reader& left, const Reader& right) {
      return left.most > right.most;
    });
  }
  for (Reader& reader : readers_) {
    TRY(check_form(reader.method));
    TRY(program_->method(reader.method));
    // A method of a fixed size reads fewer tokens than the program's metadata say.
    const auto tokens = TRY(program_->meta(reader.method)).input_tensor_meta(0);
    reader.most = std::min(reader.most, static_cast<size_t>(tokens->sizes()[1]));
  }
  return {};
}

Status LanguageModel::check_form(const std::string& method) const {
  const auto meta = TRY(program_->meta(method));
  bool fits = meta.num_inputs() == 2 && meta.num_outputs() >= 1;
  if (fits) {
    const auto tokens = meta.input_tensor_meta(0);
    const auto position = meta.input_tensor_meta(1);
    const ScalarType type = reads_embeddings_ ? ScalarType::Float : ScalarType::Long;
    const size_t rank = reads_embeddings_ ? 3 : 2;
    fits = tokens.ok() && tokens->scalar_type() == type && tokens->sizes().size() == rank &&
        tokens->sizes()[1] > 0 && position.ok() && position->scalar_type() == ScalarType::Long &&
        position->sizes().size() == 1;
  }
  if (!fits) {
    return error(program_->title(method) +
         " is not a language model's: expected " +
         (reads_embeddings_ ? "embeddings, float32 (1, n, width)" : "tokens, int64 (1, n)") + ", and a position, int64 (1), and "
         "logits as the first output.");
  }
  return {};
}

bool LanguageModel::ends_with(uint32_t token) const {
  return std::find(ends_.begin(), ends_.end(), int64_t{token}) != ends_.end();
}

Result<std::vector<executorch::runtime::Span<uint8_t>>> LanguageModel::memory() const {
  std::vector<std::string> methods;
  for (const Reader& reader : readers_) {
    methods.push_back(reader.method);
  }
  return program_->memory(methods);
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

Result<const std::vector<float>*> LanguageModel::run(
    const uint32_t* tokens,
    size_t count,
    uint64_t position) {
  // The smallest method that is large enough: for a single token, `decode`.
  const Reader* reader = &readers_.front();
  for (const Reader& other : readers_) {
    if (other.is_exact ? other.most == count : other.most >= count) {
      reader = &other;
    }
  }
  if (reads_embeddings_) {
    return run(TRY(embed(tokens, count)), position);
  }
  const std::vector<int64_t> values(tokens, tokens + count);
  return decode(reader->method, {integers(values.data(), count, {1, static_cast<int64_t>(count)}), "tokens"}, position);
}

Result<const std::vector<float>*> LanguageModel::run(const Media& media, uint64_t position) {
  if (!reads_embeddings_) {
    return error(program_->path() + " reads no images or recordings, and the conversation has some; rewind the chat.");
  }
  const auto* bytes = reinterpret_cast<const uint8_t*>(media.embeddings.data());
  const auto count = static_cast<int64_t>(media.positions);
  const auto width = static_cast<int64_t>(media.embeddings.size() / std::max<size_t>(media.positions, 1));
  const ArrayView view = {
      dtype_of(ScalarType::Float), {1, count, width}, bytes, media.embeddings.size() * sizeof(float)};
  return decode(kDecoder, {view, "embeddings"}, position);
}

Result<const std::vector<float>*> LanguageModel::decode(
    const std::string& method,
    GivenInput given,
    uint64_t position) {
  const auto start = static_cast<int64_t>(position);
  const std::string title = program_->title(method);
  const auto meta = TRY(program_->meta(method));
  Method& loaded = *TRY(program_->method(method));
  const Inputs inputs =
      TRY(make_inputs(title, meta, {std::move(given), {integers(&start, 1, {1}), "the position"}}));
  const auto outputs = TRY(loaded.run(inputs.values));
  TRY(read_logits(title, outputs[0]));
  return &logits_;
}

Result<Media> LanguageModel::embed(const uint32_t* tokens, size_t count) {
  const std::vector<int64_t> values(tokens, tokens + count);
  const Inputs inputs = TRY(make_inputs(
      program_->title(kEmbedding),
      TRY(program_->meta(kEmbedding)),
      {{integers(values.data(), count, {1, static_cast<int64_t>(count)}), "tokens"}}));
  return media_of(kEmbedding, inputs);
}

Result<std::string> LanguageModel::encoder() const {
  for (const char* encoder : kEncoders) {
    if (reads_embeddings_ && program_->has(encoder)) {
      return std::string(encoder);
    }
  }
  return error(program_->path() + " reads no images or recordings: expected a method \"" + kEncoders[0] + "\" or \"" +
               kEncoders[1] + "\" beside \"" + kDecoder + "\".");
}

Result<uint32_t> LanguageModel::media_token() const {
  if (!program_->has(kMediaToken)) {
    return error(program_->path() + " takes no image or recording in a chat: its metadata do not say which token marks "
                 "it in a text (" + kMediaToken + "). Run its methods instead.");
  }
  const std::vector<int64_t> values = TRY(constant(kMediaToken));
  if (values.size() != 1 || values[0] < 0 || values[0] >= int64_t{kFirstMedia}) {
    return error(program_->title(kMediaToken) + " returns no token.");
  }
  return static_cast<uint32_t>(values[0]);
}

Result<Media> LanguageModel::encode(const Inputs& inputs) {
  return media_of(TRY(encoder()), inputs);
}

Result<Media> LanguageModel::media_of(const std::string& method, const Inputs& inputs) {
  const auto outputs = TRY(TRY(program_->method(method))->run(inputs.values));
  if (outputs.empty() || !outputs[0].isTensor() || outputs[0].toTensor().dim() != 3 ||
      outputs[0].toTensor().size(0) != 1 || outputs[0].toTensor().numel() == 0 ||
      outputs[0].toTensor().scalar_type() != ScalarType::Float) {
    return error(program_->title(method) + " returns no embeddings, float32 (1, n, width).");
  }
  const executorch::aten::Tensor tensor = outputs[0].toTensor();
  Media media;
  media.positions = static_cast<size_t>(tensor.size(1));
  append<float>(tensor, 0, media.embeddings);
  return media;
}

Status LanguageModel::read_logits(const std::string& title, const EValue& output) {
  logits_.clear();
  if (!output.isTensor() || output.toTensor().dim() < 1 || output.toTensor().numel() == 0) {
    return error(title + " returns no logits.");
  }
  const executorch::aten::Tensor tensor = output.toTensor();
  // Only those of the last token, if the program returns those of all.
  const auto row = static_cast<size_t>(tensor.size(tensor.dim() - 1));
  const size_t start = static_cast<size_t>(tensor.numel()) - row;
  switch (tensor.scalar_type()) {
    case ScalarType::Float:
      append<float>(tensor, start, logits_);
      return {};
    case ScalarType::Half:
      append<executorch::aten::Half>(tensor, start, logits_);
      return {};
    case ScalarType::BFloat16:
      append<executorch::aten::BFloat16>(tensor, start, logits_);
      return {};
    default:
      return error(title + " returns logits that are not floating-point numbers.");
  }
}

Result<const std::vector<float>*> Session::read(const std::vector<uint32_t>& tokens) {
  std::vector<uint32_t>& unread = cursor_.unread;
  const uint64_t before = cursor_.read;
  unread.insert(unread.end(), tokens.begin(), tokens.end());
  const std::vector<float>* logits = nullptr;
  for (size_t at = 0; at < unread.size();) {
    const uint32_t first = unread[at];
    const bool is_media = first >= kFirstMedia;
    const auto begin = unread.begin() + static_cast<std::ptrdiff_t>(at);
    const auto end = std::find_if(begin, unread.end(), [&](uint32_t token) {
      return is_media ? token != first : token >= kFirstMedia;
    });
    const auto left = static_cast<size_t>(end - begin);
    const size_t count = is_media ? left : model_.next_count(left);
    logits = is_media ? TRY(model_.run(*TRY(media_at(first, left)), cursor_.read))
                      : TRY(model_.run(unread.data() + at, count, cursor_.read));
    cursor_.read += count;
    at += count;
  }
  history_.resize(before);
  history_.insert(history_.end(), unread.begin(), unread.end());
  unread.clear();
  return logits;
}

Result<const Media*> Session::media_at(uint32_t number, size_t count) const {
  const size_t index = number - kFirstMedia;
  if (index >= media_.size() || media_[index].positions != count) {
    return error(
        model_.program().path() + ": token " + std::to_string(number) + ", expected one below " +
        std::to_string(kFirstMedia) + ".");
  }
  return &media_[index];
}

void Session::rewind(Cursor cursor) {
  const uint64_t in_cache = model_.keeps_state() ? 0 : std::min(cursor_.read, cursor.read);
  const auto begin = history_.begin();
  cursor.unread.insert(
      cursor.unread.begin(),
      begin + static_cast<std::ptrdiff_t>(in_cache),
      begin + static_cast<std::ptrdiff_t>(cursor.read));
  cursor_ = {in_cache, std::move(cursor.unread)};
}

void Session::empty_cache() {
  const Cursor now = cursor_;
  cursor_.read = 0;
  rewind(now);
}

Result<uint32_t> Sampler::choose(const std::vector<float>& logits, const std::string& program) {
  if (std::any_of(logits.begin(), logits.end(), [](float logit) { return std::isnan(logit); })) {
    return error(program + ": its logits are not numbers (NaN); try the program with another recipe, e.g. one "
         "in 32-bit floating point.");
  }
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (*largest == -INFINITY) {
    return error(program + ": its logits rule out every token (all are minus infinity); try the program with "
         "another recipe, e.g. one in 32-bit floating point.");
  }
  // A difference of infinities would be NaN.
  if (temperature_ == 0 || *largest == INFINITY) {
    return static_cast<uint32_t>(largest - logits.begin());
  }
  // Minus the maximum, so that no exponential overflows.
  std::vector<double> bounds;
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp((double{logit} - double{*largest}) / temperature_);
    bounds.push_back(sum);
  }
  const auto drawn = std::upper_bound(bounds.begin(), bounds.end(), random() * sum);
  return static_cast<uint32_t>(std::min<size_t>(
      static_cast<size_t>(drawn - bounds.begin()), logits.size() - 1));
}

// SplitMix64.
double Sampler::random() {
  state_ += 0x9E3779B97F4A7C15;
  uint64_t bits = state_;
  bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ bits >> 27) * 0x94D049BB133111EB;
  return static_cast<double>((bits ^ bits >> 31) >> 11) / 9007199254740992.0;
}

Result<Generation> generate(
    Session& session,
    Sampler& sampler,
    const std::vector<uint32_t>& tokens,
    const Limits& limits,
    const std::function<Status(uint32_t)>& on_token) {
  Generation record;
  record.prompt_tokens = tokens;
  const LanguageModel& model = session.model();
  const auto reading = now();
  const std::vector<float>* logits = TRY(session.read(tokens));
  record.prefill_ms = milliseconds_since(reading);
  while (true) {
    const uint32_t token = TRY(sampler.choose(*logits, model.program().path()));
    if (model.ends_with(token) && !limits.ignores_end) {
      record.reason = "end";
      return record;
    }
    record.tokens.push_back(token);
    TRY(on_token(token));
    const char* reason = record.tokens.size() == limits.max_new_tokens           ? "length"
        : session.room() == 0                                                    ? "context"
        : limits.is_stopped != nullptr && *limits.is_stopped                     ? "stopped"
                                                                                 : nullptr;
    if (reason != nullptr) {
      session.say(token);
      record.reason = reason;
      return record;
    }
    const auto began = now();
    logits = TRY(session.read({token}));
    record.decode_ms += milliseconds_since(began);
    record.decode_tokens += 1;
  }
}

}  // namespace runner
