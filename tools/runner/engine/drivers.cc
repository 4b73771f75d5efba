#include "tools/runner/engine/drivers.h"

#if defined(__ANDROID__) || defined(__linux__)
#include <dlfcn.h>

#include <algorithm>
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
using GetProperties = void (*)(void*, void*);
using DestroyInstance = void (*)(void*, const void*);

template <typename Function>
Function function_of(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

// Devices with Vulkan, and what is wrong where there are none.
struct VulkanDevices {
  std::string problem;
  uint32_t version = 0;  // The newest that a device has, as Vulkan packs it.
};

constexpr uint32_t kMaxDevices = 16;

// The newest version of the first devices.
uint32_t newest_version(void* instance, EnumerateDevices enumerate, GetProperties properties) {
  uint32_t count = kMaxDevices;
  void* devices[kMaxDevices] = {};
  enumerate(instance, &count, devices);
  uint32_t newest = 0;
  for (uint32_t i = 0; i < count && i < kMaxDevices; ++i) {
    // VkPhysicalDeviceProperties begins with the version, and is smaller than this.
    alignas(8) uint32_t about[1024] = {};
    properties(devices[i], about);
    newest = std::max(newest, about[0]);
  }
  return newest;
}

VulkanDevices find_vulkan() {
  void* library = nullptr;
  // It stays open: the backend uses it next.
  for (const char* name : {"libvulkan.so.1", "libvulkan.so"}) {
    library = library == nullptr ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : library;
  }
  if (library == nullptr) {
    return {"found no Vulkan on this machine (libvulkan.so)"};
  }
  const auto create = function_of<CreateInstance>(library, "vkCreateInstance");
  const auto enumerate = function_of<EnumerateDevices>(library, "vkEnumeratePhysicalDevices");
  const auto properties = function_of<GetProperties>(library, "vkGetPhysicalDeviceProperties");
  const auto destroy = function_of<DestroyInstance>(library, "vkDestroyInstance");
  if (create == nullptr || enumerate == nullptr || properties == nullptr || destroy == nullptr) {
    return {"found a libvulkan.so that lacks functions of Vulkan"};
  }
  const InstanceInfo info;
  void* instance = nullptr;
  const int32_t code = create(&info, nullptr, &instance);
  if (code != 0) {
    return {"found no driver for Vulkan on this machine (vkCreateInstance: " + std::to_string(code) + ")"};
  }
  const uint32_t version = newest_version(instance, enumerate, properties);
  destroy(instance, nullptr);
  return version > 0 ? VulkanDevices{"", version} : VulkanDevices{"found no device with Vulkan on this machine"};
}

// The begin of QNN's interface, whose versions are those of its API.
struct QnnInterface {
  uint32_t backend;
  const char* name;
  uint32_t core[3];
};
using GetProviders = uint64_t (*)(const QnnInterface*** providers, uint32_t* count);

}  // namespace

std::string missing_driver(const std::string& backend) {
  return backend == "VulkanBackend" ? find_vulkan().problem : "";
}

std::string vulkan_version() {
  // Three bits of a variant, seven, ten and twelve of the version.
  const uint32_t version = find_vulkan().version;
  return version == 0 ? "" : std::to_string(version >> 22 & 0x7F) + "." + std::to_string(version >> 12 & 0x3FF);
}

std::string qnn_version() {
  void* const library = dlopen("libQnnHtp.so", RTLD_NOW | RTLD_LOCAL);
  const auto get = library == nullptr ? nullptr : function_of<GetProviders>(library, "QnnInterface_getProviders");
  const QnnInterface** providers = nullptr;
  uint32_t count = 0;
  if (get == nullptr || get(&providers, &count) != 0 || providers == nullptr || count == 0) {
    return "";
  }
  const uint32_t* const core = providers[0]->core;
  return std::to_string(core[0]) + "." + std::to_string(core[1]) + "." + std::to_string(core[2]);
}
#else
std::string missing_driver(const std::string&) {
  return "";
}

std::string vulkan_version() {
  return "";
}

std::string qnn_version() {
  return "";
}
#endif

}  // namespace runner
