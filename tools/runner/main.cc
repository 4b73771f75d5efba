// Runs ExecuTorch programs, several in one process; see docs/runner.md.

#include "tools/runner/entry.h"

int main(int count, char** values) {
  runner::main_of_runner(count, values);
}
