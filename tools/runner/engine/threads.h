// The threads of kernels and backends.
#pragma once

namespace runner {

// Sets how many they use together; ends the process with a sentence if the runtime has none.
void set_threads(int count);

}  // namespace runner
