// This process: how a program of ours ends when something is wrong. For mains, but for `note` and stages.
//
// Nothing else ends the process: errors are values (result.h), and only a crash or an abort of the runtime has no
// other way out.
#pragma once

#include <string>

namespace runner {

// Makes the runtime's aborts and crashes (SIGSEGV, ...) end as other errors do: with one sentence and
// code 1. Keeps stderr for such sentences and the runtime's messages for `runtime_message`; what is
// written to a closed standard output, or a file that may not grow, fails.
//
// The runtime trusts what it reads: a damaged program that passes all checks may still crash it.
void guard_process();

// Prints "error: <sentence>" as one line, the last one of this process: its caller ends it.
void print_error(const std::string& sentence);

// Prints "runner: <sentence>" as one line; the process goes on.
void note(const std::string& sentence);

// What the process is doing, for the sentence that a crash ends with; forgets `runtime_message`.
void set_stage(const std::string& stage);

// The first error that the runtime logged in this stage; may be empty.
std::string runtime_message();

}  // namespace runner
