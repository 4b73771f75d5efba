// How the runner ends when something is wrong: one sentence on stderr, exit code 1.
//
// No exceptions: some platforms' toolchains build without them, and nothing here recovers.
#pragma once

#include <string>

namespace runner {

// Prints "error: <sentence>" as one line and ends the process with code 1.
[[noreturn]] void fail(const std::string& sentence);

// Keeps stderr for `fail` alone: libraries write to it what only their authors understand.
void own_stderr();

// What the process is doing, for the sentence that a crash ends with; forgets `runtime_message`.
void set_stage(const std::string& stage);

// Makes the runtime's aborts and crashes (SIGSEGV, ...) end as `fail` does.
//
// The runtime trusts what it reads: a damaged program that passes all checks may still crash it.
void guard_against_crashes();

// The first error that the runtime logged in this stage; may be empty.
std::string runtime_message();

}  // namespace runner
