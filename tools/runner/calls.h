// Calls of the command line to the C interface: errors are values, as elsewhere in this code.
#pragma once

#include <string>

#include "tools/runner/api/executorch_app.h"
#include "tools/runner/base/result.h"

namespace runner {

// Calls a function whose last parameter is the error.
template <class Function, class... Values>
Status call(Function* function, Values... values) {
  executorch_app_error failure;
  return function(values..., &failure) == 0 ? Status() : error(failure.sentence);
}

// A program of the command line.
struct OpenProgram {
  executorch_app* app;
  size_t index;
  executorch_app_session* session;

  std::string path() const { return executorch_app_program_path(app, index); }
  // The name of a method in errors.
  std::string title(const std::string& method) const { return path() + ": method \"" + method + "\""; }
};

}  // namespace runner
