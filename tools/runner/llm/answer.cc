#include "tools/runner/llm/answer.h"

#include "tools/runner/base/clock.h"
#include "tools/runner/base/output.h"
#include "tools/runner/llm/utf8.h"

namespace runner {
namespace {

// Adds what the tokens say and was not said yet; whole characters only, or, at the end, all.
void say_more(
    const Tokenizer& tokenizer,
    bool is_end,
    Answer& record,
    const std::function<void(std::string_view)>& say) {
  const std::string bytes = tokenizer.decode(record.tokens);
  const std::string text = repaired(is_end ? std::string_view(bytes) : without_cut_end(bytes));
  if (text.size() > record.text.size()) {
    say(std::string_view(text).substr(record.text.size()));
    record.text = text;
  }
}

std::string part(const char* name, size_t count, double milliseconds) {
  return std::string(name) + ": " + std::to_string(count) + " tokens, " +
      with_digits(per_second(count, milliseconds), 1) + " tokens per second";
}

}  // namespace

double per_second(size_t count, double milliseconds) {
  return milliseconds > 0 ? 1000.0 * static_cast<double>(count) / milliseconds : 0;
}

std::string speed_of(const Answer& answer) {
  return part("prefill", answer.prompt_tokens.size(), answer.prefill_ms) + "; " +
      part("decode", answer.decode_tokens, answer.decode_ms);
}

Answer answer(
    const std::vector<uint32_t>& said,
    const Tokenizer& tokenizer,
    Session& session,
    const std::string& program,
    Sampler& sampler,
    size_t max_new_tokens,
    const std::function<void(std::string_view)>& say) {
  Answer record;
  record.prompt_tokens = said;
  const auto reading = now();
  const std::vector<float>* logits = &session.read(said);
  record.prefill_ms = milliseconds_since(reading);
  while (true) {
    const uint32_t token = sampler.choose(*logits, program);
    if (session.model().ends_with(token)) {
      record.reason = "end";
      break;
    }
    record.tokens.push_back(token);
    say_more(tokenizer, false, record, say);
    if (record.tokens.size() == max_new_tokens) {
      session.say(token);
      record.reason = "length";
      break;
    }
    if (session.room() == 0) {
      session.say(token);
      record.reason = "context";
      break;
    }
    const auto decoding = now();
    logits = &session.read({token});
    record.decode_ms += milliseconds_since(decoding);
    record.decode_tokens += 1;
  }
  say_more(tokenizer, true, record, say);
  return record;
}

}  // namespace runner
