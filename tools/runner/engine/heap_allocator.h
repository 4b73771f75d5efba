// Memory for the runtime's own structures and for what kernels need while they run.
#pragma once

#include <vector>

#include <executorch/runtime/core/memory_allocator.h>

namespace runner {

// Takes memory from the heap, and gives all of it back at once.
class HeapAllocator final : public executorch::runtime::MemoryAllocator {
 public:
  HeapAllocator() : MemoryAllocator(0, nullptr) {}
  ~HeapAllocator() override;

  void* allocate(size_t size, size_t alignment = kDefaultAlignment) override;
  void reset() override;

 private:
  std::vector<void*> blocks_;
};

}  // namespace runner
