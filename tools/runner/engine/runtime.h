// The runtime as a whole: its errors in words, what it has, its threads, and recording what it does.
#pragma once

#include <memory>
#include <string>

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/event_tracer.h>

#include "tools/runner/base/result.h"

namespace runner {

// "<what>: <the error in words>.", if `code` is one.
Status check(executorch::runtime::Error code, const std::string& what);

// Its version, backends and operators as one JSON object.
std::string runtime_info();

// Sets how many threads kernels and backends use together; an error, if the runtime has none.
Status set_threads(int count);

// Records what a program does, where this runner was linked with one: //tools/runner:etdump.
class Recorder {
 public:
  virtual ~Recorder() = default;

  // For the methods of one program.
  virtual executorch::runtime::EventTracer* tracer() = 0;

  // Writes what was recorded.
  virtual Status write(const std::string& path) = 0;
};

using MakeRecorder = std::unique_ptr<Recorder> (*)();

// What makes recorders from now on.
void set_recorder(MakeRecorder make);

// An error, if there is none to be had.
Result<std::unique_ptr<Recorder>> make_recorder();

}  // namespace runner
