// Drivers that backends need, looked for before a backend uses them.
#pragma once

#include <string>

namespace runner {

// The driver that a backend lacks on this machine, as the end of "…, which ": "found no …". "": none that is known of.
//
// Vulkan's backend says that it is available wherever it was compiled, and ends the process without a driver.
std::string missing_driver(const std::string& backend);

}  // namespace runner
