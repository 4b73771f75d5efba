// A method's outputs to arrays.
#pragma once

#include <string>

#include <executorch/runtime/core/evalue.h>

#include "tools/runner/tensors/array.h"

namespace runner {

// An output as an array in row-major order. An error, which begins with `name`, if it is another kind of value.
Result<Array> to_array(const executorch::runtime::EValue& value, const std::string& name);

}  // namespace runner
