// Drivers that backends need, looked for before a backend uses them.
#pragma once

#include <string>

namespace runner {

// The driver that a backend lacks on this machine, as the end of "…, which ": "found no …". "": none that is known of.
//
// Vulkan's backend says that it is available wherever it was compiled, and ends the process without a driver.
std::string missing_driver(const std::string& backend);

// The newest version of Vulkan that a device of this machine has, "1.3"; "": there is none.
std::string vulkan_version();

// The version of QNN's API in the library libQnnHtp.so on the search path, "2.25.0"; "": there is none.
std::string qnn_version();

}  // namespace runner
