// The runtime as a whole: its errors in words, its contents, its threads, and recording of events.
#pragma once

#include <memory>
#include <string>

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/event_tracer.h>
#include <executorch/runtime/executor/method_meta.h>

#include "tools/runner/base/result.h"

namespace runner {

// "<what>: <the error in words>.", if `code` is one.
Status check(executorch::runtime::Error code, const std::string& what);

// An error, if a method needs a backend that the runtime lacks, or that lacks its driver; `what` is the method.
Status check_backends(const executorch::runtime::MethodMeta& meta, const std::string& what);

// Its version; "": unknown.
std::string runtime_version();

// Its version, backends and operators as one JSON object.
std::string runtime_info();

// While one exists, the threads cannot be set: loaded methods hold the runtime's pool.
class LoadedProgram {
 public:
  LoadedProgram();
  ~LoadedProgram();
  LoadedProgram(const LoadedProgram&) = delete;
  LoadedProgram& operator=(const LoadedProgram&) = delete;
};

bool has_loaded_programs();

// Sets the number of threads of kernels and backends; an error, if the runtime has no threads, or a program is loaded.
Status set_threads(int count);

// Records a program's events, if the runner links //tools/runner:etdump.
class Recorder {
 public:
  virtual ~Recorder() = default;

  // For the methods of one program.
  virtual executorch::runtime::EventTracer* tracer() = 0;

  // Writes the recorded events.
  virtual Status write(const std::string& path) = 0;
};

using MakeRecorder = std::unique_ptr<Recorder> (*)();

// Sets the function that creates recorders.
void set_recorder(MakeRecorder make);

// An error, if the runner has no recorder.
Result<std::unique_ptr<Recorder>> make_recorder();

}  // namespace runner
