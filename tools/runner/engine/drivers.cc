#include "tools/runner/engine/drivers.h"

#if defined(__ANDROID__) || defined(__linux__)
#include <dlfcn.h>

#include <cstdint>
#endif

namespace runner {

#if defined(__ANDROID__) || defined(__linux__)
namespace {

// The parts of Vulkan 1.0 that count devices; its headers are no part of the runtime's.
struct InstanceInfo {
  int32_t type = 1;
  const void* next = nullptr;
  uint32_t flags = 0;
  const void* application = nullptr;
  uint32_t layer_count = 0;
  const char* const* layers = nullptr;
  uint32_t extension_count = 0;
  const char* const* extensions = nullptr;
};
using CreateInstance = int32_t (*)(const InstanceInfo*, const void*, void**);
using EnumerateDevices = int32_t (*)(void*, uint32_t*, void**);
using DestroyInstance = void (*)(void*, const void*);

template <typename Function>
Function function_of(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

std::string missing_vulkan() {
  void* library = nullptr;
  // It stays open: the backend uses it next.
  for (const char* name : {"libvulkan.so.1", "libvulkan.so"}) {
    library = library == nullptr ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : library;
  }
  if (library == nullptr) {
    return "found no Vulkan on this machine (libvulkan.so)";
  }
  const auto create = function_of<CreateInstance>(library, "vkCreateInstance");
  const auto enumerate = function_of<EnumerateDevices>(library, "vkEnumeratePhysicalDevices");
  const auto destroy = function_of<DestroyInstance>(library, "vkDestroyInstance");
  if (create == nullptr || enumerate == nullptr || destroy == nullptr) {
    return "found a libvulkan.so that lacks functions of Vulkan";
  }
  const InstanceInfo info;
  void* instance = nullptr;
  const int32_t code = create(&info, nullptr, &instance);
  if (code != 0) {
    return "found no driver for Vulkan on this machine (vkCreateInstance: " + std::to_string(code) + ")";
  }
  uint32_t count = 0;
  enumerate(instance, &count, nullptr);
  destroy(instance, nullptr);
  return count > 0 ? "" : "found no device with Vulkan on this machine";
}

}  // namespace

std::string missing_driver(const std::string& backend) {
  return backend == "VulkanBackend" ? missing_vulkan() : "";
}
#else
std::string missing_driver(const std::string&) {
  return "";
}
#endif

}  // namespace runner
