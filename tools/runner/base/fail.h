// How the runner ends when something is wrong: one sentence on stderr, exit code 1.
//
// No exceptions: some platforms' toolchains build without them, and nothing here recovers.
#pragma once

#include <string>

namespace runner {

// Prints "error: <sentence>" as one line and ends the process with code 1.
[[noreturn]] void fail(const std::string& sentence);

// Prints "runner: <sentence>" as one line; the process goes on.
void note(const std::string& sentence);

// As `fail`, without allocating: for a process whose heap may be spoiled.
// Prints "error: ExecuTorch's runtime <what> while <stage>; ...".
[[noreturn]] void fail_in_runtime(const char* what);

// Keeps stderr for `fail` alone: libraries write to it what only their authors understand.
void own_stderr();

// What the process is doing, for the sentence that a crash ends with; forgets `runtime_message`.
void set_stage(const std::string& stage);

// The first error that the runtime logged in this stage; may be empty.
std::string runtime_message();

// Keeps `text` for `runtime_message`, if it is the first one of this stage.
void keep_runtime_message(const char* text, size_t length);

}  // namespace runner
