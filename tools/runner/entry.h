// Where the runner begins, for programs and for libraries that are loaded into another process.
#pragma once

namespace runner {

// Does what a command line asks for, prints to stdout and stderr, and ends the process.
[[noreturn]] void main_of_runner(int count, char** values);

}  // namespace runner
