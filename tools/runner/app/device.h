// Facts of the device that this process runs on: what a manifest's conditions ask for.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/runner/base/result.h"

namespace runner {

// Fact to its values: {"soc": ["SM8650"], "ram_gb": ["12"], "features": ["dotprod", "i8mm"]}. docs/howto/fleet.md lists
// them.
using DeviceFacts = std::map<std::string, std::vector<std::string>>;

class Device {
 public:
  // Each of `given` is "fact=value value"; it replaces what the device says. An error, if one is not.
  static Result<Device> of(const std::vector<std::string>& given);

  // Values of a fact; none: the device has no such thing, or this version of the interface does not know the fact. They
  // are gathered when somebody asks: a look for a driver loads it.
  const std::vector<std::string>& values(const std::string& fact);

  // Facts that were given, and those that somebody asked for.
  const DeviceFacts& facts() const { return facts_; }

 private:
  DeviceFacts facts_;
};

// The class of a memory's size, in gigabytes as devices are sold: the next one of 1, 2, 3, 4, 6, 8, 12, 16, 18, 24, 32,
// 48, 64 and multiples of 64, as kernels keep a part for themselves.
uint64_t memory_class(uint64_t bytes);

}  // namespace runner
