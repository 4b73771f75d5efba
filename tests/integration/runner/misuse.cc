// Calls each function of executorch_app.h in each wrong way: `misuse PROGRAM TOKENIZER MODE`, in an empty folder.
//
//   rows       each function with each bad argument, of the table that misuse_rows.py makes of the header
//   listener   each function from a listener of its own chat
//   closed     each function after its session was closed
//   app_closed each function after its app was closed
//   threads    each function while another thread answers in the same chat, and closing in the middle of an answer
//   memory     each function while each of its allocations fails
//
// Prints what is wrong, and how many calls it made; the code is 1 if anything is wrong.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "executorch_app.h"

namespace {

// Of the memory mode: this allocation of the thread fails; negative: none.
thread_local long fails_at = -1;
thread_local bool has_failed = false;

// Allocations that may not fail: those of the runtime, and those of the JSON library's destructors, which end the process
// then.
bool is_left_out(const void* caller) {
  Dl_info info = {};
  if (dladdr(caller, &info) == 0) {
    return false;
  }
  const std::string_view file = info.dli_fname == nullptr ? "" : info.dli_fname;
  const std::string_view name = info.dli_sname == nullptr ? "" : info.dli_sname;
  // A destructor moves what it frees to a vector.
  return file.find("/libexecutorch") != std::string_view::npos || name.find("St6vectorIN8nlohmann") != std::string_view::npos ||
      (name.find("nlohmann") != std::string_view::npos && name.find("destroy") != std::string_view::npos);
}

const char* const kNulls[] = {nullptr, nullptr};
const uint32_t kTokens[] = {1, 2};
const int64_t kNegative[] = {-1, 4};
const int64_t kHuge[] = {INT64_MAX, INT64_MAX};
const executorch_app_program_files kEmptyPrograms[1] = {};
const executorch_app_tensor kEmpty[2] = {};

bool hear(const char*, size_t, void*) { return true; }
bool throw_error(const char*, size_t, void*) { throw std::runtime_error("the listener's own words"); }
bool throw_number(const char*, size_t, void*) { throw 7; }
bool throw_bad_alloc(const char*, size_t, void*) { throw std::bad_alloc(); }

struct Result {
  bool is_code;
  int code;
  bool is_nothing;
};

Result result_of(executorch_app_code code) { return {true, static_cast<int>(code), false}; }
Result result_of(const char* text) { return {false, 0, text == nullptr}; }
template <class Number>
Result result_of(Number number) { return {false, 0, number == 0}; }

enum Expected { kRefused, kAny, kCode, kNothing, kValue };
enum Handles { k_app = 1, k_session = 2, k_chat = 4, k_tokenizer = 8 };

// Arguments of right calls.
struct Good {
  const char* program_path = nullptr;
  const char* tokenizer_path = nullptr;
  const char* long_text = nullptr;
  executorch_app* app = nullptr;
  executorch_app_session* session = nullptr;
  executorch_app_chat* chat = nullptr;
  executorch_app_tokenizer* tokenizer = nullptr;
  executorch_app* closed_app = nullptr;
  executorch_app_session* closed_session = nullptr;
  executorch_app_chat* closed_chat = nullptr;
  executorch_app_tokenizer* closed_tokenizer = nullptr;
  executorch_app* opened_app = nullptr;
  executorch_app_session* opened_session = nullptr;
  executorch_app_chat* opened_chat = nullptr;
  executorch_app_tokenizer* opened_tokenizer = nullptr;
  executorch_app_error error = {};
  executorch_app_method method = {};
  executorch_app_answer answer = {};
  const executorch_app_tensor* tensors = nullptr;
  size_t size = 0;
  const int64_t token_shape[2] = {1, 3}, position_shape[1] = {1}, tokens[3] = {5, 5, 5}, position[1] = {0};
  executorch_app_tensor inputs[2] = {
      {"int64", token_shape, 2, tokens, sizeof(tokens), nullptr},
      {"int64", position_shape, 1, position, sizeof(position), nullptr}};
  size_t input_count = 2;
  // The chat's program reads no images, so a right call is refused, too.
  executorch_app_tensor media[1] = {{"int64", position_shape, 1, position, sizeof(position), nullptr}};
  const char* texts[1] = {"abc"};
  size_t text_count = 1;
  size_t token_count = 2;
  const char* data[1] = {"none.ptd"};
  size_t data_count = 0;
  executorch_app_open_options right_executorch_app_open_options = {};
  executorch_app_session_options right_executorch_app_session_options = {};
  executorch_app_tensor right_executorch_app_tensor = {"int64", position_shape, 1, position, sizeof(position), nullptr};
  executorch_app_chat_options right_executorch_app_chat_options = {};
  executorch_app_program_files null_data[1] = {};
  executorch_app_program_files huge_data[1] = {};
};

struct Row {
  const char* name;
  const char* argument;
  Expected expected;
  Result (*call)(Good& good);
};

struct Call {
  const char* name;
  int handles;
  bool returns_code;
  bool has_error;
  Result (*call)(Good& good);
};

#include "tests/integration/runner/misuse_rows.inc"

std::atomic<long> calls{0};
std::atomic<long> wrong{0};

void check(bool is_right, const std::string& what, const Good& good, const Result& result) {
  calls += 1;
  if (!is_right) {
    wrong += 1;
    printf("%s: code %d, \"%s\"\n", what.c_str(), result.code, good.error.sentence);
    fflush(stdout);
  }
}

void must(executorch_app_code code, const Good& good, const char* what) {
  if (code != EXECUTORCH_APP_OK) {
    printf("%s: %s\n", what, good.error.sentence);
    exit(2);
  }
}

void open_chat(Good& good) {
  must(executorch_app_open_session(good.app, nullptr, &good.session, &good.error), good, "session");
  must(executorch_app_open_chat(good.session, &good.right_executorch_app_chat_options, &good.chat, &good.error), good, "chat");
}

void open(Good& good) {
  must(executorch_app_open(good.program_path, nullptr, &good.app, &good.error), good, "open");
  open_chat(good);
  must(
      executorch_app_open_tokenizer(good.app, good.tokenizer_path, false, &good.tokenizer, &good.error), good,
      "tokenizer");
}

// Closes what rows have opened, too.
void close(Good& good) {
  executorch_app_close_tokenizer(good.tokenizer);
  executorch_app_close_tokenizer(good.opened_tokenizer);
  executorch_app_close(good.app);
  executorch_app_close(good.opened_app);
}

void prepare(Good& good, char** values) {
  static const std::string long_text = std::string(100000, 'a') + ".pte";
  good.program_path = values[1];
  good.tokenizer_path = values[2];
  good.long_text = long_text.c_str();
  good.right_executorch_app_chat_options.tokenizer = values[2];
  good.right_executorch_app_chat_options.raw = true;
  good.right_executorch_app_chat_options.max_new_tokens = 4;
  good.null_data[0].program = good.huge_data[0].program = values[1];
  good.null_data[0].data_count = 1;
  good.huge_data[0].data = kNulls;
  good.huge_data[0].data_count = SIZE_MAX / sizeof(char*) + 2;
  open(good);
  good.closed_app = good.app;
  good.closed_session = good.session;
  good.closed_chat = good.chat;
  good.closed_tokenizer = good.tokenizer;
  must(executorch_app_save_chat(good.chat, "saved.chat", &good.error), good, "save");
  close(good);
  open(good);
}

bool says(const Good& good, const char* word) { return strstr(good.error.sentence, word) != nullptr; }

// A code, and with one that is an error a sentence.
bool is_answer(const Good& good, const Result& result, bool has_error) {
  return !result.is_code || (result.code >= EXECUTORCH_APP_OK && result.code <= EXECUTORCH_APP_CONTEXT_FULL &&
                             (result.code == EXECUTORCH_APP_OK || !has_error || good.error.sentence[0] != '\0'));
}

bool is_expected(const Good& good, const Row& row, const Result& result) {
  switch (row.expected) {
    case kRefused:
      return result.code == EXECUTORCH_APP_INVALID_ARGUMENT && says(good, row.argument) && says(good, "executorch_app_");
    case kNothing:
      return !result.is_code && result.is_nothing;
    case kAny:
      return is_answer(good, result, strcmp(row.argument, "error") != 0);
    default:
      return is_answer(good, result, false);
  }
}

// Returns the answer to this message in a new conversation; each row must leave it so.
std::string answer_of(Good& good) {
  const auto append = [](const char* text, size_t size, void* user) {
    static_cast<std::string*>(user)->append(text, size);
    return true;
  };
  std::string text;
  must(executorch_app_rewind(good.chat, 0, &good.error), good, "rewind");
  must(executorch_app_say(good.chat, "aaaaaa", append, &text, nullptr, &good.error), good, "say");
  return text;
}

void run_rows(Good& good) {
  const std::string expected = answer_of(good);
  for (const Row& row : kRows) {
    good.error = {};
    const Result result = row.call(good);
    check(is_expected(good, row, result), row.name, good, result);
    const bool is_closed = strstr(row.name, "_close") != nullptr;
    if (executorch_app_program_count(good.app) == 0) {
      check(is_closed, std::string(row.name) + " closed the app", good, result);
      executorch_app_close_tokenizer(good.tokenizer);
      open(good);
    } else if (executorch_app_context(good.chat) == 0) {
      check(is_closed, std::string(row.name) + " closed the chat", good, result);
      executorch_app_close_session(good.session);
      open_chat(good);
    }
    if (answer_of(good) != expected) {
      check(false, std::string(row.name) + " changes answers", good, result);
    }
    executorch_app_close_tokenizer(good.opened_tokenizer);
    executorch_app_close(good.opened_app);
    executorch_app_close_session(good.opened_session);
  }
}

struct Listening {
  Good* good;
  const Call* call;
  bool is_done;
};

bool call_once(const char*, size_t, void* user) {
  Listening& listening = *static_cast<Listening*>(user);
  Good& good = *listening.good;
  const Call& call = *listening.call;
  if (!listening.is_done) {
    listening.is_done = true;
    good.error = {};
    const Result result = call.call(good);
    const bool is_close = strstr(call.name, "_close") != nullptr;
    const bool uses_own = (call.handles & (k_session | k_chat)) != 0 || strcmp(call.name, "executorch_app_close") == 0 ||
        strcmp(call.name, "executorch_app_set_threads") == 0;
    const bool is_refused = result.code == EXECUTORCH_APP_INVALID_ARGUMENT && (is_close || good.error.sentence[0] != '\0');
    check(
        !call.returns_code || (uses_own ? is_refused : result.code == EXECUTORCH_APP_OK),
        std::string(call.name) + " of a listener", good, result);
  }
  return true;
}

void run_in_listener(Good& good) {
  const std::string expected = answer_of(good);
  for (const Call& call : kCalls) {
    Listening listening = {&good, &call, false};
    must(executorch_app_rewind(good.chat, 0, &good.error), good, "rewind");
    // In the second turn, so that there is one to go back to.
    must(executorch_app_say(good.chat, "aaa", nullptr, nullptr, nullptr, &good.error), good, "first");
    const executorch_app_code code = executorch_app_say(good.chat, "aa", call_once, &listening, nullptr, &good.error);
    const Result result = result_of(code);
    check(code == EXECUTORCH_APP_OK && executorch_app_turns(good.chat) == 2, std::string("say, whose listener calls ") + call.name, good, result);
    check(answer_of(good) == expected, std::string("later turns, after ") + call.name, good, result);
    if (strcmp(call.name, "executorch_app_close_tokenizer") == 0) {
      must(
          executorch_app_open_tokenizer(good.app, good.tokenizer_path, false, &good.tokenizer, &good.error), good,
          "tokenizer");
    }
    executorch_app_close_tokenizer(good.opened_tokenizer);
    executorch_app_close(good.opened_app);
    executorch_app_close_session(good.opened_session);
  }
}

void run_after_close(Good& good, bool closes_app) {
  for (const Call& call : kCalls) {
    closes_app ? executorch_app_close(good.app) : executorch_app_close_session(good.session);
    good.error = {};
    const Result result = call.call(good);
    const int closed = (closes_app ? k_app : 0) | k_session | k_chat;
    const bool is_close = strstr(call.name, "_close") != nullptr;
    const bool is_right = (call.handles & closed) == 0 ? is_answer(good, result, call.has_error)
        : is_close                                     ? result.code == EXECUTORCH_APP_OK
        : call.returns_code ? result.code == EXECUTORCH_APP_INVALID_ARGUMENT && says(good, "closed")
                            : result.is_nothing;
    check(is_right, std::string(call.name) + (closes_app ? " after its app" : " after its session"), good, result);
    close(good);
    good.opened_app = nullptr;
    open(good);
  }
}

// One thread's own view of handles that two threads use.
struct Shared {
  Good good;
  std::atomic<bool>* is_over;
};

void* answer_again(void* user) {
  Shared& shared = *static_cast<Shared*>(user);
  while (!*shared.is_over) {
    shared.good.error = {};
    const Result result =
        result_of(executorch_app_say(shared.good.chat, "a", hear, nullptr, nullptr, &shared.good.error));
    check(is_answer(shared.good, result, true), "say in a thread", shared.good, result);
    executorch_app_rewind(shared.good.chat, 0, nullptr);
  }
  return nullptr;
}

void run_in_threads(Good& good) {
  constexpr int kRounds = 8;
  for (const Call& call : kCalls) {
    for (int round = 0; round < kRounds; ++round) {
      std::atomic<bool> is_over{false};
      Shared shared = {good, &is_over};
      pthread_t thread;
      pthread_create(&thread, nullptr, answer_again, &shared);
      for (int i = 0; i < kRounds; ++i) {
        good.error = {};
        const Result result = call.call(good);
        check(is_answer(good, result, call.has_error), std::string(call.name) + " beside an answer", good, result);
        executorch_app_close_session(good.opened_session);
        executorch_app_close_tokenizer(good.opened_tokenizer);
        executorch_app_close(good.opened_app);
        good.opened_app = nullptr;
      }
      if (round == 0) {
        executorch_app_close(good.app);
      }
      is_over = true;
      pthread_join(thread, nullptr);
      if (executorch_app_context(good.chat) == 0) {
        close(good);
        open(good);
      }
    }
  }
}

void run_without_memory(Good& good) {
  const std::string expected = answer_of(good);
  for (const Call& call : kCalls) {
    for (long number = 0;; number += 1 + number / 16) {
      good.error = {};
      has_failed = false;
      fails_at = number;
      const Result result = call.call(good);
      fails_at = -1;
      const bool is_right = is_answer(good, result, call.has_error) &&
          (!has_failed || !call.returns_code || !call.has_error || result.code != EXECUTORCH_APP_OK);
      check(is_right, std::string(call.name) + ", allocation " + std::to_string(number) + " fails", good, result);
      executorch_app_close_session(good.opened_session);
      executorch_app_close_tokenizer(good.opened_tokenizer);
      executorch_app_close(good.opened_app);
      good.opened_app = nullptr;
      // Handles that are left answer as before, or take no more calls.
      const executorch_app_code code = executorch_app_rewind(good.chat, 0, &good.error);
      check(code == EXECUTORCH_APP_OK || good.error.sentence[0] != '\0', "rewind after it", good, result_of(code));
      if (code != EXECUTORCH_APP_OK) {
        close(good);
        open(good);
      }
      if (executorch_app_program_count(good.app) == 0 || answer_of(good) != expected) {
        check(false, std::string(call.name) + " changes answers", good, result);
      }
      if (!has_failed) {
        break;
      }
    }
  }
}

}  // namespace

void* operator new(size_t size) {
  if (fails_at >= 0 && !is_left_out(__builtin_return_address(0)) && fails_at-- == 0) {
    has_failed = true;
    throw std::bad_alloc();
  }
  void* const memory = malloc(size == 0 ? 1 : size);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

void operator delete(void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }

int main(int count, char** values) {
  if (count != 4) {
    return 2;
  }
  const std::string mode = values[3];
  Good good;
  prepare(good, values);
  if (mode == "rows") {
    run_rows(good);
  } else if (mode == "listener") {
    run_in_listener(good);
  } else if (mode == "closed") {
    run_after_close(good, false);
  } else if (mode == "app_closed") {
    run_after_close(good, true);
  } else if (mode == "threads") {
    run_in_threads(good);
  } else if (mode == "memory") {
    run_without_memory(good);
  } else {
    return 2;
  }
  close(good);
  printf("%ld calls, %ld wrong\n", calls.load(), wrong.load());
  return wrong == 0 ? 0 : 1;
}
