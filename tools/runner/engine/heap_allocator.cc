#include "tools/runner/engine/heap_allocator.h"

#include <algorithm>
#include <cstdlib>

namespace runner {

HeapAllocator::~HeapAllocator() {
  HeapAllocator::reset();
}

void* HeapAllocator::allocate(size_t size, size_t alignment) {
  void* block = nullptr;
  // A power of two that posix_memalign takes, and no block of no bytes.
  const size_t wanted = std::max(alignment, sizeof(void*));
  if (posix_memalign(&block, wanted, std::max<size_t>(size, 1)) != 0) {
    return nullptr;
  }
  blocks_.push_back(block);
  return block;
}

void HeapAllocator::reset() {
  for (void* block : blocks_) {
    free(block);
  }
  blocks_.clear();
}

}  // namespace runner
