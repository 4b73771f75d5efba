// Recording what a program does, where this runner was linked with a recorder: //tools/runner:etdump.
#pragma once

#include <memory>
#include <string>

#include <executorch/runtime/core/event_tracer.h>

namespace runner {

class Recorder {
 public:
  virtual ~Recorder() = default;

  // For the methods of one program.
  virtual executorch::runtime::EventTracer* tracer() = 0;

  // Writes what was recorded; ends the process with a sentence if that can't be done.
  virtual void write(const std::string& path) = 0;
};

using MakeRecorder = std::unique_ptr<Recorder> (*)();

// What makes recorders from now on.
void set_recorder(MakeRecorder make);

// Ends the process with a sentence if there is none to be had.
std::unique_ptr<Recorder> make_recorder();

}  // namespace runner
