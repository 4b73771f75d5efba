// Memory that the exporter planned for the tensors of a program's methods.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <executorch/runtime/core/hierarchical_allocator.h>
#include <executorch/runtime/executor/method_meta.h>
#include <executorch/runtime/executor/program.h>

namespace runner {

// Zeroed memory of some bytes, aligned for any tensor. It costs memory as it is written to.
class Arena {
 public:
  explicit Arena(size_t size);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  executorch::runtime::Span<uint8_t> bytes() const { return {aligned_, size_}; }

 private:
  void* block_;
  uint8_t* aligned_;
  size_t size_;
};

// The arenas of one method, in the order in which its tensors name them.
class Arenas {
 public:
  explicit Arenas(std::vector<std::shared_ptr<Arena>> arenas);

  executorch::runtime::HierarchicalAllocator* allocator() { return &allocator_; }

 private:
  std::vector<std::shared_ptr<Arena>> arenas_;
  std::vector<executorch::runtime::Span<uint8_t>> bytes_;
  executorch::runtime::HierarchicalAllocator allocator_;
};

// Makes arenas for the methods of one program.
//
// Methods that were exported with share_mutable_buffers work on one state, a KV cache for example.
// It is all that lies in their second arena, which has the same size in each of them: that arena is
// one for all. No other program of the standard memory planning has a second arena.
class ArenaMaker {
 public:
  // `name` of the program is for sentences.
  ArenaMaker(const executorch::runtime::Program& program, std::string name);

  // Ends the process with a sentence if the method plans more memory than is free.
  std::unique_ptr<Arenas> make(const executorch::runtime::MethodMeta& method);

 private:
  std::vector<size_t> sizes_of(const executorch::runtime::MethodMeta& method) const;

  std::string name_;
  size_t shared_size_ = 0;  // 0: nothing is shared.
  std::shared_ptr<Arena> shared_;
};

}  // namespace runner
