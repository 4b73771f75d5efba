// Whether arrays are equal within bounds.
#pragma once

#include <string>
#include <vector>

#include "tools/runner/tensors/array.h"

namespace runner {

struct Tolerance {
  double absolute = 1e-4;
  double relative = 1e-4;
};

struct Comparison {
  double largest = 0;   // Difference.
  std::string problem;  // "": each number is within |got - wanted| <= absolute + relative * |wanted|.
};

// Integers and booleans have to be equal.
Comparison compare(const Array& got, const Array& wanted, const Tolerance& tolerance);

}  // namespace runner
