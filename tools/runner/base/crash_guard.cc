#include "tools/runner/base/crash_guard.h"

#include <signal.h>

#include <exception>
#include <new>

#include <executorch/runtime/platform/platform.h>

#include "tools/runner/base/fail.h"
#include "tools/runner/base/os.h"

namespace runner {
namespace {

void on_signal(int number) {
  switch (number) {
    case SIGBUS:
      fail_in_runtime("read past the end of a file (SIGBUS)");
    case SIGFPE:
      fail_in_runtime("crashed (SIGFPE)");
    case SIGILL:
      fail_in_runtime("crashed (SIGILL)");
    case SIGABRT:
      fail_in_runtime("gave up (SIGABRT)");
    default:
      fail_in_runtime("crashed (SIGSEGV)");
  }
}

[[noreturn]] void on_runtime_abort() {
  fail_in_runtime("gave up");
}

void on_log(
    et_timestamp_t,
    et_pal_log_level_t level,
    const char*,
    const char*,
    size_t,
    const char* text,
    size_t length) {
  if (level == kError || level == kFatal) {
    keep_runtime_message(text, length);
  }
}

}  // namespace

void guard_against_crashes() {
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    handle_signal(number, on_signal);
  }
  // A closed standard output is an error like others.
  signal(SIGPIPE, SIG_IGN);
  std::set_terminate([] { fail_in_runtime("gave up"); });
  std::set_new_handler([] { fail_in_runtime("got no memory"); });
  executorch::runtime::register_pal(executorch::runtime::PalImpl::create(
      nullptr, on_runtime_abort, nullptr, nullptr, on_log, nullptr, nullptr, __FILE__));
}

}  // namespace runner
