// A method that is ready to run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/executor/memory_manager.h>
#include <executorch/runtime/executor/method.h>

#include "tools/runner/engine/arenas.h"
#include "tools/runner/engine/heap_allocator.h"

namespace runner {

// What a method is loaded with, besides its program.
struct MethodOptions {
  bool weight_cache = false;
  executorch::runtime::EventTracer* tracer = nullptr;
};

class Method {
 public:
  // Ends the process with a sentence, which begins with `name`, if the runtime refuses it.
  Method(
      const executorch::runtime::Program& program,
      const executorch::runtime::MethodMeta& meta,
      std::string name,
      std::unique_ptr<Arenas> arenas,
      const executorch::runtime::NamedDataMap* data,
      const MethodOptions& options);

  // Runs it once. The outputs lie in memory of the program
  // until one of its methods runs again.
  std::vector<executorch::runtime::EValue> run(
      const std::vector<executorch::runtime::EValue>& inputs);

 private:
  std::string name_;
  std::unique_ptr<Arenas> arenas_;
  std::unique_ptr<HeapAllocator> structures_;
  std::unique_ptr<HeapAllocator> temporary_;
  std::unique_ptr<executorch::runtime::MemoryManager> memory_;
  std::unique_ptr<executorch::runtime::Method> method_;
};

}  // namespace runner
