// Ends the process after an error. For mains, except `note` and `set_stage`.
//
// Errors are values (result.h). Nothing else ends the process, except a crash or an abort of the runtime.
#pragma once

#include <string>

namespace runner {

// Makes aborts and crashes of the runtime (SIGSEGV, ...) end like other errors: with one sentence and
// code 1. Reserves stderr for such errors. Writing to a closed standard output, or to a file at its size limit, fails.
//
// The runtime trusts its inputs: a damaged program that passes all checks may still crash it.
void guard_process();

// Prints "error: <sentence>" as one line, the last one of this process: the caller ends the process.
void print_error(const std::string& sentence);

// Prints "runner: <sentence>" as one line; the process continues.
void note(const std::string& sentence);

// Sets what this thread is doing, for the error of a crash; clears `runtime_message`. From now on what the runtime logs
// on this thread is kept instead of printed. Threads that never call this log as before: an app may use the runtime, too.
void set_stage(const std::string& stage);

// The stage of the last `set_stage` of any thread.
const char* last_stage();

// The first error that the runtime logged in this thread's stage, or on a thread of its own; may be empty.
std::string runtime_message();

}  // namespace runner
