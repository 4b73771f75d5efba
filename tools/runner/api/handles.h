// What the C interface's opaque types are, and how its functions return.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/runner/api/executorch_app.h"
#include "tools/runner/api/sentence.h"
#include "tools/runner/app/open_app.h"
#include "tools/runner/base/result.h"
#include "tools/runner/engine/program.h"
#include "tools/runner/engine/runtime.h"
#include "tools/runner/llm/chat.h"
#include "tools/runner/llm/text_inputs.h"
#include "tools/runner/tensors/array.h"
#include "tools/runner/tensors/value_info.h"

namespace runner {

// A method's inputs and outputs, and the same for C, which points to them.
class Description {
 public:
  Description() = default;
  Description(std::string name, const std::vector<ValueInfo>& inputs, const std::vector<ValueInfo>& outputs);

  executorch_app_method get() const;

 private:
  std::string name_;
  size_t input_count_ = 0;
  std::vector<ValueInfo> infos_;  // Of inputs, then of outputs.
  std::vector<executorch_app_value> values_;
};

inline executorch_app_code succeed(executorch_app_error* error) {
  return fail(EXECUTORCH_APP_OK, "", error);
}

inline executorch_app_code missing(const char* function, const char* argument, executorch_app_error* error) {
  return fail(EXECUTORCH_APP_INVALID_ARGUMENT, missing_argument(function, argument), error);
}

// The value of a Result, or nothing for a Status; an error ends the enclosing function of the interface with `code`.
#define TRY_OR_FAIL(code, expression)                           \
  ({                                                            \
    auto try_result = (expression);                             \
    if (!try_result.ok()) {                                     \
      return runner::fail(code, try_result.sentence(), error);  \
    }                                                           \
    try_result.take_value();                                    \
  })

inline std::string text_or_empty(const char* text) {
  return text == nullptr ? "" : text;
}

}  // namespace runner

struct executorch_app {
  runner::OpenOptions options;
  runner::App files;
  // Data files that chats were switched to, beside the app's own. Any thread switches.
  std::atomic_flag is_switching = ATOMIC_FLAG_INIT;
  std::vector<runner::CacheUse> switched;
};

struct executorch_app_session {
  executorch_app* app;
  size_t index;  // Of the program in the app.
  std::vector<std::string> data;  // In place of the program's; none: its own.
  std::unique_ptr<runner::Recorder> recorder;  // nullptr: events are not recorded. Outlives the program.
  std::unique_ptr<runner::Program> program;
  std::vector<std::string> methods;
  std::map<std::string, runner::Description> descriptions;
  // Ends with the session's chat.
  std::weak_ptr<void> chat;
  // Of the last run.
  double run_ms = 0;
  runner::Description run;
  std::vector<runner::Array> arrays;
  std::vector<executorch_app_tensor> outputs;
};

struct executorch_app_chat {
  executorch_app_session* session;
  std::shared_ptr<void> life = std::make_shared<char>();
  runner::ChatText text;
  std::unique_ptr<runner::Chat> chat;
  runner::Answer answer;  // The last one.
};

struct executorch_app_tokenizer {
  runner::TextReader reader;
  // The last inputs.
  std::vector<runner::Array> arrays;
  std::vector<executorch_app_tensor> inputs;
};

namespace runner {

// The index of a program; an error, if there is none of that name.
Result<size_t> find_program(const executorch_app& app, const char* name, const char* function);

// Loads a program of the app as the session loads its own, with other data files if there are any.
Result<std::unique_ptr<Program>> load_program(
    executorch_app_session& session,
    size_t index,
    const std::vector<std::string>& data);

// Replaces the session's program by a loaded one.
void set_program(
    executorch_app_session& session,
    size_t index,
    std::vector<std::string> data,
    std::unique_ptr<Program> program);

}  // namespace runner
