#include "tests/integration/cc/part.h"

#include <utility>

int& counter() {
  static int value = 0;
  return value;
}

std::string part_of(const std::string& word) { return word.substr(0, 3); }
