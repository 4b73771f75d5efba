#include "tools/runner/engine/recorder.h"

#include "tools/runner/base/fail.h"

namespace runner {
namespace {

MakeRecorder maker = nullptr;

}  // namespace

void set_recorder(MakeRecorder make) {
  maker = make;
}

std::unique_ptr<Recorder> make_recorder() {
  if (maker == nullptr) {
    fail("--etdump: this runner was built without the runtime's library for it (libexecutorch_etdump); "
         "leave it out, or use one that has it, as //tools/runner.");
  }
  return maker();
}

}  // namespace runner
