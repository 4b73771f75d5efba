// Runs ExecuTorch programs, several in one process; see docs/reference/tools.md.

#include "tools/runner/entry.h"

int main(int count, char** values) {
  executorch_app_main(count, values);
}
