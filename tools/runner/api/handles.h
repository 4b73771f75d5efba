// Opaque types of the C interface: what they are, who may use them when, and how its functions return.
//
// An app holds numbers in the shape of pointers, which are given once and never again. So each function finds out that
// a handle is closed, or of another type, instead of using freed memory. A call owns what it uses: whoever closes it
// meanwhile takes the handle away, and the memory is freed when the call ends.
#pragma once

#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#if defined(__GLIBCXX__)
#include <cxxabi.h>
#endif

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

// One call at a time uses a session and its chat, or a tokenizer; short looks at them are possible between calls.
class Use {
 public:
  Use() = default;
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  // Begins a call; otherwise the reason why there can be none, as the second half of a sentence.
  const char* begin();
  void end();

  // Looks at what it is for, unless another thread's call changes that.
  class Look {
   public:
    explicit Look(Use& use);
    ~Look() { use_.looks_ -= 1; }
    Look(const Look&) = delete;
    Look& operator=(const Look&) = delete;

    bool is_possible() const { return is_possible_; }

   private:
    Use& use_;
    bool is_possible_;
  };

  // Tells whether this thread is in a call, and so in a listener.
  bool is_own() const;

  // Around changes that an exception would leave half done; then no call can begin any more.
  void begin_change() { is_broken_ = true; }
  void end_change() { is_broken_ = false; }

 private:
  std::atomic<uintptr_t> thread_{0};  // 0: there is no call.
  std::atomic<int> looks_{0};
  bool is_broken_ = false;  // Of the thread that calls.
};

}  // namespace runner

struct executorch_app {
  runner::OpenOptions options;
  runner::App files;
  std::map<std::string, std::string> variants;  // By name: what they came to, as JSON.
};

struct executorch_app_session {
  std::shared_ptr<executorch_app> app;
  runner::Use use;
  size_t index;  // Of the program in the app.
  std::vector<std::string> data;  // In place of the program's; none: its own.
  std::unique_ptr<runner::Recorder> recorder;  // nullptr: events are not recorded. Outlives the program.
  std::unique_ptr<runner::Program> program;
  std::vector<std::string> methods;
  std::map<std::string, runner::Description> descriptions;
  std::weak_ptr<executorch_app_chat> chat;
  runner::Generation generation;  // The last one without a chat.
  // Of the last run.
  double run_ms = 0;
  runner::Description run;
  std::vector<runner::Array> arrays;
  std::vector<executorch_app_tensor> outputs;
};

struct executorch_app_chat {
  std::shared_ptr<executorch_app_session> session;
  runner::ChatText text;
  std::unique_ptr<runner::Chat> chat;
  runner::Answer answer;  // The last one.
};

struct executorch_app_tokenizer {
  runner::TextReader reader;
  // The last inputs.
  std::vector<runner::Array> arrays;
  std::vector<executorch_app_tensor> inputs;
  runner::Use use;
};

namespace runner {

// Calls `body`. What it throws becomes `otherwise(what)`: no exception leaves the interface. Without exceptions, as with
// the bundled compiler for Android, memory that runs out ends the process.
template <class Body, class Otherwise>
auto caught(const Body& body, const Otherwise& otherwise) -> decltype(body()) {
#if defined(__cpp_exceptions)
  try {
    return body();
#if defined(__GLIBCXX__)
  } catch (const abi::__forced_unwind&) {
    // The thread ends.
    throw;
#endif
  } catch (const std::bad_alloc&) {
    return otherwise("memory ran out");
  } catch (const std::length_error&) {
    return otherwise("memory ran out");
  } catch (const std::exception& exception) {
    return otherwise(exception.what());
  } catch (...) {
    return otherwise("an exception of an unknown type");
  }
#else
  (void)otherwise;
  return body();
#endif
}

// A function that returns a code: `body` gets its name.
template <class Body>
executorch_app_code guarded(const char* function, executorch_app_error* error, const Body& body) {
  return caught(
      [&]() -> executorch_app_code { return body(function); },
      [&](const char* what) {
        write_failure(function, what, error);
        return EXECUTORCH_APP_FAILED;
      });
}

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

// A list of texts, of which none is NULL; `what` begins errors.
Result<std::vector<std::string>> texts_of(const char* const* texts, size_t count, const std::string& what);

enum class Kind { kApp, kSession, kChat, kTokenizer };

inline Kind kind_of(const executorch_app*) { return Kind::kApp; }
inline Kind kind_of(const executorch_app_session*) { return Kind::kSession; }
inline Kind kind_of(const executorch_app_chat*) { return Kind::kChat; }
inline Kind kind_of(const executorch_app_tokenizer*) { return Kind::kTokenizer; }

inline Use* use_of(executorch_app&) { return nullptr; }
inline Use* use_of(executorch_app_session& session) { return &session.use; }
inline Use* use_of(executorch_app_chat& chat) { return &chat.session->use; }
inline Use* use_of(executorch_app_tokenizer& tokenizer) { return &tokenizer.use; }

// A new handle, a child of `parent`, which may be NULL; nullptr: the parent was closed.
void* add_handle(Kind kind, std::shared_ptr<void> object, const void* parent);

// Returns the object of a handle; nullptr: it is closed, or no handle of that kind.
std::shared_ptr<void> find_handle(Kind kind, const void* handle);

// Closes a handle and its children; NULL and a closed one have no effect. INVALID_ARGUMENT: it has another kind, or a
// listener of its answer calls.
executorch_app_code close_handle(Kind kind, const void* handle);

template <class T>
std::shared_ptr<T> find(const T* handle) {
  return std::static_pointer_cast<T>(find_handle(kind_of(handle), handle));
}

// Writes a handle of what a function opened.
template <class T>
executorch_app_code give(
    std::shared_ptr<T> opened,
    const void* parent,
    T** handle,
    const char* function,
    executorch_app_error* error) {
  void* const added = add_handle(kind_of(opened.get()), std::move(opened), parent);
  if (added == nullptr) {
    return fail(
        EXECUTORCH_APP_INVALID_ARGUMENT,
        std::string(function) + ": another thread closed what it belongs to, expected it open until the call returns.",
        error);
  }
  *handle = static_cast<T*>(added);
  return succeed(error);
}

// The objects that a call uses until its end.
template <class T>
class InUse {
 public:
  explicit InUse(std::shared_ptr<T> object) : object_(std::move(object)) {}
  InUse(InUse&&) noexcept = default;
  InUse& operator=(InUse&&) = delete;
  ~InUse() {
    if (object_ != nullptr && use_of(*object_) != nullptr) {
      use_of(*object_)->end();
    }
  }

  T& operator*() const { return *object_; }
  T* operator->() const { return object_.get(); }
  const std::shared_ptr<T>& shared() const { return object_; }

 private:
  std::shared_ptr<T> object_;
};

// Begins to use what a handle stands for; an error, which names the function and its argument, if that is impossible.
template <class T>
Result<InUse<T>> use(const T* handle, const char* function, const char* argument) {
  if (handle == nullptr) {
    return error(missing_argument(function, argument));
  }
  std::shared_ptr<T> object = find(handle);
  const std::string where = std::string(function) + ": " + argument + ": ";
  if (object == nullptr) {
    return error(
        where + "got one that is closed, or of another type, expected an open one. Closing a session closes its chat, "
        "and closing an app its sessions.");
  }
  const char* const problem = use_of(*object) == nullptr ? nullptr : use_of(*object)->begin();
  if (problem != nullptr) {
    return error(where + problem);
  }
  return InUse<T>(std::move(object));
}

// A value of what a handle stands for; `otherwise`, if the handle is NULL or closed, or another thread uses it.
template <class T, class Value, class Get>
Value look(const T* handle, Value otherwise, const Get& get) {
  return caught(
      [&]() -> Value {
        const std::shared_ptr<T> object = handle == nullptr ? nullptr : find(handle);
        if (object == nullptr) {
          return otherwise;
        }
        Use* const use = use_of(*object);
        if (use == nullptr) {
          return get(*object);
        }
        const Use::Look looking(*use);
        return looking.is_possible() ? static_cast<Value>(get(*object)) : otherwise;
      },
      [&](const char*) { return otherwise; });
}

// The index of a program; an error, if there is none of that name.
Result<size_t> find_program(const executorch_app& app, const char* name, const char* function);

// Copies of a method's inputs; an error, if one does not fit the method, whose `title` is for errors, or has a size that
// the model was not exported for.
Result<Inputs> copied_inputs(
    const std::string& title,
    const executorch::runtime::MethodMeta& meta,
    const std::vector<DeclaredInput>& declared,
    const executorch_app_tensor* tensors,
    size_t count);

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
