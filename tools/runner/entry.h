// The runner's command line, for its main and for those who load the library that contains it.
#pragma once

// Runs a command line, prints to stdout and stderr, and ends the process.
extern "C" [[noreturn]] void executorch_app_main(int count, char** values);
