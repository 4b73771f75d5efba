#include <optional>

#include "util.h"

// C++17 is the default of an app's sources.
int main() { return std::optional<int>(helper()).value(); }
