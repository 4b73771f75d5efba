// Errors as values: a library may not end the process, and some toolchains build without exceptions.
//
//     Result<Manifest> read_manifest(const std::string& path) {
//       const JsonValue json = TRY(JsonValue::read(path, "a manifest"));  // Returns an error to the caller.
//       if (!json.has("data")) {
//         return error(path + " has no data.");
//       }
//       ...
//     }
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace runner {

// Success, or one sentence that says what is wrong.
class [[nodiscard]] Status {
 public:
  Status() = default;
  static Status of_error(std::string sentence) {
    Status status;
    status.sentence_ = std::make_unique<std::string>(std::move(sentence));
    return status;
  }

  bool ok() const { return sentence_ == nullptr; }
  // Of an error.
  const std::string& sentence() const { return *sentence_; }

  // For TRY, as Result has them.
  Status take_status() { return std::move(*this); }
  void take_value() {}

 private:
  std::unique_ptr<std::string> sentence_;
};

inline Status error(std::string sentence) {
  return Status::of_error(std::move(sentence));
}

// A value, or the sentence that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  // From a convertible value: a pointer to a derived class.
  template <class U, class = std::enable_if_t<std::is_convertible_v<U&&, T>>>
  Result(U&& value) : value_(std::forward<U>(value)) {}
  // Of an error.
  Result(Status status) : status_(std::move(status)) {}

  bool ok() const { return value_.has_value(); }
  // Of an error.
  const std::string& sentence() const { return status_.sentence(); }

  // Of a success.
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

  Status take_status() { return std::move(status_); }
  T take_value() { return std::move(*value_); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace runner

// The value of a Result, or nothing for a Status; returns an error from the enclosing function.
// Do not use it beside operands that own something: their order of evaluation is unspecified, and they would leak.
#define TRY(expression)                \
  ({                                   \
    auto try_result = (expression);    \
    if (!try_result.ok()) {            \
      return try_result.take_status(); \
    }                                  \
    try_result.take_value();           \
  })
