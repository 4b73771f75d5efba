// Prints the operators that ExecuTorch's Vulkan backend has registered for payloads.

#include <cstdio>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

// As upstream declares them; its headers of the backend are in no package.
namespace vkcompute {

class ComputeGraph;

struct OperatorRegistry {
  using Function = std::function<void(ComputeGraph&, const std::vector<int>&)>;
  std::unordered_map<std::string, Function> functions;
};

OperatorRegistry& operator_registry();

}  // namespace vkcompute

int main() {
  for (const auto& entry : vkcompute::operator_registry().functions) {
    std::printf("%s\n", entry.first.c_str());
  }
  return 0;
}
