// Runs ExecuTorch programs, several in one process; see docs/reference/tools.md.

#include "tools/runner/entry.h"

int main(int count, char** values) {
  runner::main_of_runner(count, values);
}
