// What the runtime has.
#pragma once

namespace runner {

// Prints its version, backends and operators as one JSON object.
void print_runtime_info();

}  // namespace runner
