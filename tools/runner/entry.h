// The runner's entry point, for programs and for libraries that another process loads.
#pragma once

namespace runner {

// Runs a command line, prints to stdout and stderr, and ends the process.
[[noreturn]] void main_of_runner(int count, char** values);

}  // namespace runner
