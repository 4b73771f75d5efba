// A language model's program, for one conversation at a time: tokens in, logits of the next token out. Of some, an
// encoder turns images or recordings into embeddings, which the decoder reads as it reads those of tokens.
//
// The KV cache is part of the program, so a program has one conversation. Session counts the tokens in
// the cache; reading a position beyond them, or a position twice, would silently return wrong logits.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tools/runner/engine/program.h"
#include "tools/runner/tensors/inputs.h"

namespace runner {

// An image or a recording, as the decoder reads it: all of its positions in one call.
struct Media {
  size_t positions = 0;
  std::vector<float> embeddings;  // Of one position after the other.
};

// Numbers from here on stand for positions of a conversation's images and recordings: all positions of the first one
// have this number, of the second one the next, and so on.
constexpr uint32_t kFirstMedia = uint32_t{1} << 31;

class LanguageModel {
 public:
  // An error, if the program is not a language model: it needs `forward(tokens, input_pos)`, or `decode` with
  // `prefill` or `prefill_N`, or `token_embedding(tokens)` and `text_decoder(embeddings, input_pos)`, and metadata
  // methods for the size of its context, the tokens that end an answer, and the maximum tokens of a call. `program`
  // must outlive this object.
  static Result<LanguageModel> open(Program& program);

  // Tells whether it may be a language model.
  static bool is_language_model(const Program& program);

  uint64_t context() const { return context_; }

  // True: the program keeps a state that each token changes, beside or instead of a KV cache. It begins anew at
  // position 0, and nowhere else can a conversation go back to.
  bool keeps_state() const { return keeps_state_; }
  bool ends_with(uint32_t token) const;

  const Program& program() const { return *program_; }

  // The method that reads an image or a recording; an error, if the program has none.
  Result<std::string> encoder() const;

  // The token that marks an image or a recording in a text; an error, if the metadata do not say it.
  Result<uint32_t> media_token() const;

  // Runs the encoder.
  Result<Media> encode(const Inputs& inputs);

  // Memory that the methods that read tokens keep: the KV cache, or a state.
  Result<std::vector<executorch::runtime::Span<uint8_t>>> memory() const;

  // Returns how many of N tokens the next call reads.
  size_t next_count(size_t left) const;

  // Reads that many tokens, the first one at `position`. Returns the logits after the last one, valid until the next
  // call.
  Result<const std::vector<float>*> run(const uint32_t* tokens, size_t count, uint64_t position);

  // Reads an image or a recording; the rest as for tokens.
  Result<const std::vector<float>*> run(const Media& media, uint64_t position);

 private:
  // A method, and how many tokens it reads.
  struct Reader {
    std::string method;
    size_t most;
    bool is_exact;
  };

  explicit LanguageModel(Program& program) : program_(&program) {}

  Result<std::vector<int64_t>> constant(const std::string& method) const;
  Result<uint64_t> size(const std::string& method) const;
  Status find_readers(size_t most);
  Status check_form(const std::string& method) const;
  Result<Media> embed(const uint32_t* tokens, size_t count);
  Result<Media> media_of(const std::string& method, const Inputs& inputs);
  Result<const std::vector<float>*> decode(const std::string& method, GivenInput given, uint64_t position);
  Status read_logits(const std::string& title, const executorch::runtime::EValue& output);

  Program* program_;
  std::vector<Reader> readers_;  // Sorted by the number of tokens, descending.
  uint64_t context_ = 0;
  bool keeps_state_ = false;
  bool reads_embeddings_ = false;
  std::vector<int64_t> ends_;
  std::vector<float> logits_;
};

// Tells whether a context takes a conversation of that many tokens. The last token of an answer that fills the context
// is said, but there is no place to read it: it is the one token more.
inline bool fits_context(uint64_t tokens, uint64_t context) {
  return tokens <= context + 1;
}

// A conversation in a program's KV cache.
class Session {
 public:
  explicit Session(LanguageModel& model) : model_(model) {}

  const LanguageModel& model() const { return model_; }

  // The number of tokens in the conversation, including those that are not read yet.
  uint64_t position() const { return cursor_.read + cursor_.unread.size(); }

  // Number of tokens that still fit.
  uint64_t room() const { return model_.context() > position() ? model_.context() - position() : 0; }

  // Adds a token that is read together with the next ones.
  void say(uint32_t token) { cursor_.unread.push_back(token); }

  // Reads tokens that fit, in calls as large as possible. Returns the logits after the last one.
  Result<const std::vector<float>*> read(const std::vector<uint32_t>& tokens);

  // The position that a conversation reached.
  struct Cursor {
    uint64_t read = 0;  // Tokens in the cache.
    std::vector<uint32_t> unread;
    size_t media = 0;  // Images and recordings before a turn.
  };

  const Cursor& cursor() const { return cursor_; }
  const std::vector<uint32_t>& history() const { return history_; }

  // Adds an image or a recording for later tokens; returns their number.
  uint32_t add_media(Media media) {
    media_.push_back(std::move(media));
    return kFirstMedia + static_cast<uint32_t>(media_.size() - 1);
  }

  const std::vector<Media>& media() const { return media_; }

  // Forgets images and recordings, which no token stands for any more, but the first ones.
  void keep_media(size_t count) { media_.resize(std::min(count, media_.size())); }

  // Continues where another session with the same memory was, which had no images or recordings.
  void restore(Cursor cursor, std::vector<uint32_t> history) {
    cursor_ = std::move(cursor);
    history_ = std::move(history);
    media_.clear();
  }

  // Continues at an earlier cursor of this conversation; later tokens are overwritten. The next call also reads the
  // earlier tokens that are not in the cache: with a state, all of them.
  void rewind(Cursor cursor);

  // Continues with a cache that has no tokens: the next call reads all of them once more.
  void empty_cache();

 private:
  // The one that `count` equal numbers stand for.
  Result<const Media*> media_at(uint32_t number, size_t count) const;

  LanguageModel& model_;
  Cursor cursor_;
  std::vector<Media> media_;
  std::vector<uint32_t> history_;  // The tokens that were read, also those that are not in the cache any more.
};

// Chooses the next token.
class Sampler {
 public:
  // A temperature of 0 selects the most likely token, 1 samples from the model's distribution, more
  // flattens it. The same seed gives the same tokens.
  Sampler(double temperature, uint64_t seed) : temperature_(temperature), state_(seed) {}

  // Selects the first of infinite logits at any temperature. An error, which begins
  // with `program`, if a logit is NaN, or all are minus infinity.
  Result<uint32_t> choose(const std::vector<float>& logits, const std::string& program);

 private:
  // From 0 to below 1.
  double random();

  double temperature_;
  uint64_t state_;
};

struct Generation {
  // The reason why it ended: "end" (the model ended it), "length" (the maximum number of tokens),
  // "context" (the KV cache is full) or "stopped".
  const char* reason = "";
  std::vector<uint32_t> prompt_tokens;
  std::vector<uint32_t> tokens;  // Without the one that ended it.
  double prefill_ms = 0;
  size_t decode_tokens = 0;  // Calls with one token.
  double decode_ms = 0;
};

struct Limits {
  size_t max_new_tokens;
  bool ignores_end = false;  // Goes on after a token that ends an answer.
  const std::atomic<bool>* is_stopped = nullptr;  // Set by another thread; nullptr: never.
};

// Reads tokens, which fit, and adds the model's own. `on_token` receives each of these; its error ends the generation.
Result<Generation> generate(
    Session& session,
    Sampler& sampler,
    const std::vector<uint32_t>& tokens,
    const Limits& limits,
    const std::function<Status(uint32_t)>& on_token);

}  // namespace runner
