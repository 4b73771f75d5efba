// A program in memory, and its methods.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/executor/memory_manager.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>

#include "tools/runner/base/result.h"
#include "tools/runner/engine/memory.h"
#include "tools/runner/engine/runtime.h"
#include "tools/runner/files/file_check.h"

namespace runner {

// Options for loading a method.
struct MethodOptions {
  bool weight_cache = false;
  executorch::runtime::EventTracer* tracer = nullptr;
};

class Method {
 public:
  // An error, which begins with `name`, if the runtime refuses it.
  static Result<std::unique_ptr<Method>> load(
      const executorch::runtime::Program& program,
      const executorch::runtime::MethodMeta& meta,
      std::string name,
      std::unique_ptr<Arenas> arenas,
      const executorch::runtime::NamedDataMap* data,
      const MethodOptions& options);

  // Runs it once. The outputs stay valid until a method of the program runs again.
  Result<std::vector<executorch::runtime::EValue>> run(
      const std::vector<executorch::runtime::EValue>& inputs);

  // Memory of its tensors, beside its inputs: activations, and its state, such as a KV cache.
  const std::vector<executorch::runtime::Span<uint8_t>>& memory() const { return arenas_->bytes(); }

 private:
  Method(std::string name, std::unique_ptr<Arenas> arenas)
      : name_(std::move(name)),
        arenas_(std::move(arenas)),
        memory_(&structures_, arenas_->allocator(), &temporary_) {}

  std::string name_;
  std::unique_ptr<Arenas> arenas_;
  // For the runtime itself, and for running kernels.
  HeapAllocator structures_;
  HeapAllocator temporary_;
  executorch::runtime::MemoryManager memory_;
  std::unique_ptr<executorch::runtime::Method> method_;
};

class Program {
 public:
  // Loads a program; all files stay mapped, not read. An error, if the runtime refuses it.
  static Result<std::unique_ptr<Program>> load(
      const CheckedFiles& files,
      executorch::runtime::EventTracer* tracer);

  const std::string& path() const { return path_; }
  const std::set<std::string>& methods() const { return methods_; }
  bool has(const std::string& method) const { return methods_.count(method) != 0; }

  // `asked`, or if it is empty "forward" or the only method; an error, if there is none.
  Result<std::string> choose_method(const std::string& asked) const;

  // For an existing method.
  Result<executorch::runtime::MethodMeta> meta(const std::string& method) const;

  // For an existing method, which is loaded on first use.
  Result<Method*> method(const std::string& name);

  // Memory of the tensors of existing methods, in this order; what methods share once.
  Result<std::vector<executorch::runtime::Span<uint8_t>>> memory(const std::vector<std::string>& methods);

  // Its inputs with a dynamic dimension, where its manifest has them.
  const std::vector<DeclaredInput>& declared(const std::string& method) const;

  // The same for programs and data of equal bytes.
  std::string identity() const;

  // The name of a method in errors.
  std::string title(const std::string& method) const;

 private:
  Program(const CheckedFiles& files, executorch::runtime::EventTracer* tracer);
  Status load();

  // Ends after the methods.
  LoadedProgram loaded_program_;
  std::string path_;
  CacheLease lease_;  // Ends after what was packed.
  MethodOptions options_;
  std::shared_ptr<const MappedFile> file_;
  ContentKeys content_keys_;  // Empty without the weight cache.
  MappedLoader loader_;
  DataFiles data_files_;
  DataMap data_;
  DeclaredInputs declared_;
  std::unique_ptr<executorch::runtime::Program> program_;
  std::set<std::string> methods_;
  std::optional<ArenaMaker> arenas_;
  std::map<std::string, std::unique_ptr<Method>> loaded_;
};

}  // namespace runner
