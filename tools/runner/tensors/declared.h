// The sizes of inputs that a program was exported with, and the values of whole numbers: its tables have no more than
// the largest size of each dimension, and the runtime compares numbers of elements.
#pragma once

#include <string>
#include <vector>

#include "tools/runner/base/result.h"
#include "tools/runner/files/manifest.h"
#include "tools/runner/tensors/inputs.h"

namespace runner {

// An error, if an input has another size than the model was exported for. `title` is the method's name in errors.
Status check_declared(
    const std::string& title,
    const std::vector<DeclaredInput>& declared,
    const std::vector<GivenInput>& given);

}  // namespace runner
