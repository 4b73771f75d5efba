#include "tools/runner/llm/chat.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "tools/runner/base/json.h"
#include "tools/runner/base/text.h"
#include "tools/runner/llm/saved_chat.h"

namespace runner {
namespace {

Result<std::vector<std::string>> texts(
    const JsonValue& json,
    const char* key,
    size_t count,
    const std::string& path) {
  std::vector<std::string> all;
  for (const JsonValue& text : TRY(json.items(key))) {
    all.push_back(TRY(text.as_text()));
  }
  if (all.size() != count) {
    return error(path + " is not a chat format of this version: \"" + key + "\" has " +
         std::to_string(all.size()) + " texts, expected " + std::to_string(count) + ".");
  }
  return all;
}

// As the filter "trim" of a template, which is Python's str.strip: it has four more characters than Unicode.
bool is_trimmed_character(uint32_t point) {
  return is_space(point) || (point >= 0x1C && point <= 0x1F);
}

std::string trimmed(const std::string& text) {
  size_t start = text.size(), end = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t size = std::max<size_t>(character_size(text, i), 1);
    if (!is_trimmed_character(code_point(std::string_view(text).substr(i, size)))) {
      start = std::min(start, i);
      end = i + size;
    }
    i += size;
  }
  return start < end ? text.substr(start, end - start) : "";
}

// Makes each `place` in a user's text a part of its own, which is a token.
std::vector<TextPart> cut_at(const std::string& place, const std::vector<TextPart>& parts) {
  std::vector<TextPart> cut;
  for (const TextPart& part : parts) {
    size_t start = 0;
    while (part.is_user_text) {
      const size_t end = part.text.find(place, start);
      if (end == std::string::npos) {
        break;
      }
      cut.push_back({part.text.substr(start, end - start), true});
      cut.push_back({place});
      start = end + place.size();
    }
    cut.push_back({part.text.substr(start), part.is_user_text});
  }
  return cut;
}

bool is_media(uint32_t token) { return token >= kFirstMedia; }

}  // namespace

Result<ChatFormat> ChatFormat::read(const std::string& path) {
  const JsonValue json = TRY(JsonValue::read(path, "a chat format"));
  const uint64_t version = TRY(json.number("format"));
  if (version != 1) {
    return error(path + " has format " + std::to_string(version) + ", expected 1.");
  }
  if (json.has("problem")) {
    const std::string problem = TRY(json.text("problem"));
    return error(path + " has no chat template: " + problem +
         " Pass the whole text with --raw_prompt.");
  }
  ChatFormat format;
  format.path_ = path;
  format.trims_ = TRY(json.flag("trims"));
  format.around_prompt_ = TRY(texts(json, "prompt", 2, path));
  if (json.has("system_and_prompt")) {
    format.around_system_and_prompt_ = TRY(texts(json, "system_and_prompt", 3, path));
  }
  if (json.has("next")) {
    format.around_next_ = TRY(texts(json, "next", 2, path));
  }
  if (json.has("next_unless")) {
    const JsonValue unless = TRY(json.at("next_unless"));
    format.changes_system_ = TRY(unless.flag("system"));
    format.changes_empty_ = TRY(unless.flag("empty_answer"));
    format.changes_start_ = TRY(unless.flag("answer_starts_with_space"));
    format.changes_end_ = TRY(unless.flag("answer_ends_with_space"));
    for (const JsonValue& text : TRY(unless.items("contains"))) {
      format.changes_texts_.push_back(TRY(text.as_text()));
    }
  }
  return format;
}

TextPart ChatFormat::said(const std::string& text) const {
  return {trims_ ? trimmed(text) : text, true};
}

Result<std::vector<TextPart>> ChatFormat::render(const std::string& prompt, const std::string& system) const {
  if (system.empty()) {
    return std::vector<TextPart>{{around_prompt_[0]}, said(prompt), {around_prompt_[1]}};
  }
  if (!around_system_and_prompt_) {
    return error("--system: " + path_ + " has no chat format with a system message; remove --system, or pass "
         "the whole text with --raw_prompt.");
  }
  const std::vector<std::string>& around = *around_system_and_prompt_;
  return std::vector<TextPart>{{around[0]}, said(system), {around[1]}, said(prompt), {around[2]}};
}

Result<std::vector<TextPart>> ChatFormat::render_next(const std::string& prompt) const {
  return std::vector<TextPart>{{(*around_next_)[0]}, said(prompt), {(*around_next_)[1]}};
}

Status ChatFormat::check_has_next(const std::string& system) const {
  if (!around_next_) {
    return no_next("earlier messages");
  }
  return changes_system_ && !system.empty() ? no_next("the system message") : Status();
}

Status ChatFormat::no_next(const std::string& change) const {
  return error("--chat: " + path_ + " has no chat format for a second message, because its template changes " + change +
       "; begin a new conversation, or use --prompt, once for each question.");
}

std::string ChatFormat::change_of(const std::string& prompt, const std::string& answer) const {
  for (const std::string& text : changes_texts_) {
    // The template's own text may have it, too.
    const bool is_own = std::any_of(around_prompt_.begin(), around_prompt_.end(), [&](const std::string& own) {
      return own.find(text) != std::string::npos;
    });
    if (answer.find(text) != std::string::npos || (!is_own && prompt.find(text) != std::string::npos)) {
      return "earlier messages that have \"" + text + "\"";
    }
  }
  if (changes_empty_ && answer.empty()) {
    return "empty answers";
  }
  const std::string inner = trimmed(answer);
  const size_t start = answer.find(inner);
  const bool has_start = start > 0, has_end = start + inner.size() < answer.size();
  const bool is_changed = inner.empty() ? !answer.empty() && (changes_start_ || changes_end_)
                                        : (changes_start_ && has_start) || (changes_end_ && has_end);
  return is_changed ? "the white space around earlier answers" : "";
}

Result<std::vector<uint32_t>> ChatText::tokens_of(
    const std::string& message,
    bool is_first,
    const std::string& place) const {
  if (!is_utf8(message)) {
    return error("--prompt or a line of --chat is not UTF-8.");
  }
  // A raw prompt contains its special tokens.
  std::vector<TextPart> parts = {{message}};
  if (format) {
    if (!is_first) {
      TRY(format->check_has_next(system));
    }
    parts = TRY(is_first ? format->render(message, system) : format->render_next(message));
  }
  for (TextPart& part : parts) {
    part.is_user_text = part.is_user_text && !parse_special;
  }
  if (!place.empty()) {
    parts = cut_at(place, parts);
  }
  std::vector<uint32_t> tokens = TRY(tokenizer->encode(parts));
  if (tokens.empty()) {
    return error("--prompt: there are no tokens to read; pass a prompt that is not empty.");
  }
  return tokens;
}

Chat::Chat(LanguageModel model, const ChatText& text, const ChatOptions& options)
    : model_(std::move(model)),
      session_(model_),
      text_(text),
      sampler_(options.temperature, options.seed),
      max_new_tokens_(options.max_new_tokens) {}

Result<std::unique_ptr<Chat>> Chat::open(
    Program& program,
    const ChatText& text,
    const ChatOptions& options) {
  return std::unique_ptr<Chat>(new Chat(TRY(LanguageModel::open(program)), text, options));
}

Result<std::vector<uint32_t>> Chat::tokens_of(const std::string& message) const {
  const bool is_first = session_.position() == 0;
  for (const std::string& change : changes_) {
    if (!is_first && !change.empty()) {
      return text_.format->no_next(change);
    }
  }
  if (!encoder().ok()) {
    return text_.tokens_of(message, is_first, "");
  }
  const uint32_t place = TRY(model_.media_token());
  const std::string text = attached_.empty() ? "" : text_.tokenizer->added_text(place);
  return with_media(TRY(text_.tokens_of(message, is_first, text)), place);
}

Result<std::vector<uint32_t>> Chat::with_media(const std::vector<uint32_t>& tokens, uint32_t place) const {
  size_t all = 0;
  for (const uint32_t number : attached_) {
    all += session_.media()[number - kFirstMedia].positions;
  }
  const auto places = static_cast<size_t>(std::count(tokens.begin(), tokens.end(), place));
  const size_t expected = attached_.size();
  if (places != expected && places != all) {
    return error(
        model_.program().path() + ": the message has " + std::to_string(places) + " places for images or recordings, " +
        "expected " + std::to_string(expected) + ", as many as are attached" +
        (all > expected ? ", or " + std::to_string(all) + ", as many as these have positions" : "") +
        ". A place is token " + std::to_string(place) + ", \"" + text_.tokenizer->added_text(place) + "\".");
  }
  std::vector<uint32_t> with;
  auto next = attached_.begin();
  size_t left = 0;  // Of the places that the last one has.
  for (const uint32_t token : tokens) {
    if (token != place) {
      with.push_back(token);
    } else if (left > 0) {
      --left;
    } else {
      const size_t positions = session_.media()[*next - kFirstMedia].positions;
      with.insert(with.end(), positions, *next++);
      left = places == expected ? 0 : positions - 1;
    }
  }
  return with;
}

Result<std::string> Chat::encoder() const {
  TRY(model_.media_token());
  return model_.encoder();
}

Status Chat::attach(const Inputs& inputs) {
  attached_.push_back(session_.add_media(TRY(model_.encode(inputs))));
  return {};
}

void Chat::detach() {
  session_.keep_media(session_.media().size() - attached_.size());
  attached_.clear();
}

Result<Answer> Chat::say(const std::vector<uint32_t>& tokens, const Listener& listener) {
  is_stopped_ = false;
  Session::Cursor start = session_.cursor();
  start.media = session_.media().size() - attached_.size();
  Result<Answer> said = answer(tokens, listener);
  if (said.ok()) {
    std::vector<uint32_t>& read = said->prompt_tokens;
    if (!attached_.empty()) {
      std::replace_if(read.begin(), read.end(), is_media, TRY(model_.media_token()));
    }
    attached_.clear();
    turns_.push_back(start);
    changes_.push_back(text_.format ? text_.format->change_of(TRY(text_.tokenizer->decode(read)), said->text) : "");
  } else {
    session_.rewind(start);
  }
  return said;
}

void Chat::rewind(size_t turn) {
  detach();
  if (turn < turns_.size()) {
    session_.keep_media(turns_[turn].media);
    session_.rewind(turns_[turn]);
    turns_.resize(turn);
    changes_.resize(turn);
  }
}

Status Chat::switch_program(Program& program) {
  LanguageModel model = TRY(LanguageModel::open(program));
  if (!fits_context(session_.position(), model.context())) {
    return error(program.path() + " holds " + std::to_string(model.context()) +
         " tokens (get_max_context_len), and the conversation has " + std::to_string(session_.position()) +
         "; rewind the chat.");
  }
  model_ = std::move(model);
  session_.empty_cache();
  return {};
}

Status Chat::save(const std::string& path) const {
  if (!session_.media().empty()) {
    return error(
        "executorch_app_save_chat: the conversation has images or recordings, which a saved chat does not hold. "
        "Rewind the chat to the turn before them.");
  }
  const SavedChat saved = {session_.cursor(), session_.history(), turns_};
  return save_chat(path, model_.program().identity(), saved, TRY(model_.memory()));
}

std::vector<std::string> Chat::restored_changes() const {
  const Session::Cursor& cursor = session_.cursor();
  std::vector<uint32_t> tokens = session_.history();
  tokens.resize(std::min<size_t>(tokens.size(), cursor.read));
  tokens.insert(tokens.end(), cursor.unread.begin(), cursor.unread.end());
  std::vector<std::string> changes;
  for (size_t i = 0; text_.format && i < turns_.size(); ++i) {
    const auto start_of = [&](size_t turn) {
      return turn < turns_.size() ? std::min<size_t>(turns_[turn].read + turns_[turn].unread.size(), tokens.size()) : tokens.size();
    };
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(std::min(start_of(i), start_of(i + 1)));
    const auto text = text_.tokenizer->decode({begin, tokens.begin() + static_cast<std::ptrdiff_t>(start_of(i + 1))});
    if (!text.ok()) {
      changes.emplace_back("earlier messages");
      continue;
    }
    const std::string inner = trimmed(*text);
    changes.push_back(text_.format->change_of(*text, "x" + text->substr(text->find(inner) + inner.size())));
  }
  return changes;
}

Status Chat::restore(const std::string& path) {
  SavedChat saved = TRY(restore_chat(path, model_.program().identity(), context(), TRY(model_.memory())));
  attached_.clear();
  session_.restore(std::move(saved.cursor), std::move(saved.history));
  turns_ = std::move(saved.turns);
  changes_ = restored_changes();
  return {};
}

Result<Answer> Chat::answer(const std::vector<uint32_t>& said, const Listener& listener) {
  Answer record;
  Decoding decoding(*text_.tokenizer);
  const auto hear = [&](const std::string& text) -> Status {
    record.text += text;
    return text.empty() ? Status() : listener(text);
  };
  const Limits limits = {max_new_tokens_, false, &is_stopped_};
  static_cast<Generation&>(record) = TRY(generate(session_, sampler_, said, limits, [&](uint32_t token) -> Status {
    return hear(TRY(decoding.add(token)));
  }));
  TRY(hear(TRY(decoding.finish())));
  return record;
}

}  // namespace runner
