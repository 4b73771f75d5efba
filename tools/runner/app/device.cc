#include "tools/runner/app/device.h"

#if defined(__APPLE__)
#include <TargetConditionals.h>
#endif

#include <algorithm>

#include "tools/runner/base/os.h"
#include "tools/runner/engine/drivers.h"

namespace runner {
namespace {

constexpr uint64_t kGigabyte = uint64_t{1} << 30;

#if defined(__ANDROID__)
constexpr char kOs[] = "android";
#elif defined(__APPLE__)
#if TARGET_OS_IPHONE
constexpr char kOs[] = "ios";
#else
constexpr char kOs[] = "macos";
#endif
#else
constexpr char kOs[] = "linux";
#endif

#if defined(__aarch64__)
constexpr char kCpu[] = "arm64";
#else
constexpr char kCpu[] = "x86_64";
#endif

#if defined(__APPLE__) && TARGET_OS_SIMULATOR
constexpr char kSimulator[] = "sim_";
#else
constexpr char kSimulator[] = "";
#endif

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find(' ', start), text.size());
    if (end > start) {
      words.push_back(text.substr(start, end - start));
    }
    start = end + 1;
  }
  return words;
}

std::vector<std::string> one_or_none(const std::string& value) {
  return value.empty() ? std::vector<std::string>() : std::vector<std::string>{value};
}

std::vector<std::string> gather(const std::string& fact) {
  if (fact == "platform") {
    return {std::string(kOs) + "_" + kSimulator + kCpu};
  }
  if (fact == "os") {
    return {kOs};
  }
  if (fact == "cpu") {
    return {kCpu};
  }
  if (fact == "ram_gb") {
    const uint64_t bytes = total_memory();
    return bytes == 0 ? std::vector<std::string>() : std::vector<std::string>{std::to_string(memory_class(bytes))};
  }
  if (fact == "features") {
    return processor_features();
  }
  if (fact == "os_level") {
    return one_or_none(os_level());
  }
  if (fact == "soc") {
    return one_or_none(soc_name());
  }
  if (fact == "vulkan") {
    return one_or_none(vulkan_version());
  }
  if (fact == "qnn") {
    return one_or_none(qnn_version());
  }
  return {};
}

}  // namespace

uint64_t memory_class(uint64_t bytes) {
  for (const uint64_t size : {1, 2, 3, 4, 6, 8, 12, 16, 18, 24, 32, 48, 64}) {
    if (bytes <= size * kGigabyte) {
      return size;
    }
  }
  return (bytes + 64 * kGigabyte - 1) / (64 * kGigabyte) * 64;
}

Result<Device> Device::of(const std::vector<std::string>& given) {
  Device device;
  for (const std::string& text : given) {
    const size_t sign = text.find('=');
    if (sign == 0 || sign == std::string::npos || text.find(' ') < sign) {
      return error("device: got \"" + text + "\", expected FACT=VALUE, such as soc=SM8650.");
    }
    device.facts_[text.substr(0, sign)] = words_of(text.substr(sign + 1));
  }
  return device;
}

const std::vector<std::string>& Device::values(const std::string& fact) {
  const auto known = facts_.find(fact);
  if (known != facts_.end()) {
    return known->second;
  }
  return facts_[fact] = gather(fact);
}

}  // namespace runner
