// The memory that the runtime works with: the heap, arenas for the tensors of a program's methods, as the
// exporter planned them, and mapped files with a program's bytes and its data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <executorch/runtime/core/data_loader.h>
#include <executorch/runtime/core/hierarchical_allocator.h>
#include <executorch/runtime/core/memory_allocator.h>
#include <executorch/runtime/core/named_data_map.h>
#include <executorch/runtime/executor/method_meta.h>
#include <executorch/runtime/executor/program.h>

#include "tools/runner/base/result.h"
#include "tools/runner/files/executorch_files.h"
#include "tools/runner/files/weight_cache.h"

namespace runner {

// XNNPACK's name among the runtime's backends.
constexpr char kXnnpack[] = "XnnpackBackend";

// Allocates from the heap, and frees everything at once. ExecuTorch's own class for this is in an extension,
// whose headers not every runtime has.
class HeapAllocator final : public executorch::runtime::MemoryAllocator {
 public:
  HeapAllocator() : MemoryAllocator(0, nullptr) {}
  ~HeapAllocator() override;

  void* allocate(size_t size, size_t alignment = kDefaultAlignment) override;
  void reset() override;

 private:
  std::vector<void*> blocks_;
};

// Zeroed memory, aligned for any tensor. It takes up memory only where it is written.
class Arena {
 public:
  static Result<std::shared_ptr<Arena>> create(size_t size);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  executorch::runtime::Span<uint8_t> bytes() const { return {aligned_, size_}; }

 private:
  // `block_` is nullptr, if there is no memory.
  explicit Arena(size_t size);

  void* block_;
  uint8_t* aligned_;
  size_t size_;
};

// The arenas of one method, in the order of the indices in its tensors.
class Arenas {
 public:
  explicit Arenas(std::vector<std::shared_ptr<Arena>> arenas);

  executorch::runtime::HierarchicalAllocator* allocator() { return &allocator_; }
  const std::vector<executorch::runtime::Span<uint8_t>>& bytes() const { return bytes_; }

 private:
  std::vector<std::shared_ptr<Arena>> arenas_;
  std::vector<executorch::runtime::Span<uint8_t>> bytes_;
  executorch::runtime::HierarchicalAllocator allocator_;
};

// Creates arenas for the methods of one program.
//
// Methods that were exported with share_mutable_buffers share their state, such as a KV cache.
// The state is all that their second arena contains, which has the same size in each method: all methods use
// one such arena. Other programs with standard memory planning have no second arena.
class ArenaMaker {
 public:
  // `name` of the program is for errors.
  static Result<ArenaMaker> create(const executorch::runtime::Program& program, std::string name);

  // An error, if the method plans more memory than is free.
  Result<std::unique_ptr<Arenas>> make(const executorch::runtime::MethodMeta& method);

 private:
  explicit ArenaMaker(std::string name) : name_(std::move(name)) {}
  Status find_shared(const executorch::runtime::Program& program);
  Result<std::vector<size_t>> sizes_of(const executorch::runtime::MethodMeta& method) const;

  std::string name_;
  size_t shared_size_ = 0;  // 0: nothing is shared.
  std::shared_ptr<Arena> shared_;
};

// Returns the mapped bytes themselves, but of XNNPACK's payloads copies with content keys, if there are such keys. Memory
// that the runtime frees returns to the kernel.
class MappedLoader final : public executorch::runtime::DataLoader {
 public:
  // The bytes must stay mapped, and the keys exist.
  MappedLoader(std::string_view bytes, const ContentKeys& content_keys) : bytes_(bytes), content_keys_(content_keys) {}

  executorch::runtime::Result<executorch::runtime::FreeableBuffer>
  load(size_t offset, size_t size, const SegmentInfo& info) const override;

  executorch::runtime::Error
  load_into(size_t offset, size_t size, const SegmentInfo& info, void* buffer) const override;

  executorch::runtime::Result<size_t> size() const override;

 private:
  std::string_view bytes_;
  const ContentKeys& content_keys_;
};

// All keys of some files, except those in the program itself: the program's data have priority. Content keys lead to the
// same data as the keys that they replace; they must exist as long as it.
//
// XNNPACK's weight cache tells keys by the addresses of their data. With `weight_cache`, keys that share a segment get
// copies of it.
class DataMap final : public executorch::runtime::NamedDataMap {
 public:
  DataMap(
      DataFiles files,
      const std::map<std::string, uint64_t>& of_program,
      const ContentKeys& content_keys,
      bool weight_cache);

  executorch::runtime::Result<const executorch::runtime::TensorLayout> get_tensor_layout(
      std::string_view key) const override;
  executorch::runtime::Result<executorch::runtime::FreeableBuffer> get_data(
      std::string_view key) const override;
  executorch::runtime::Error
  load_data_into(std::string_view key, void* buffer, size_t size) const override;
  executorch::runtime::Result<uint32_t> get_num_keys() const override;
  executorch::runtime::Result<const char*> get_key(uint32_t index) const override;

 private:
  void add(const std::string& key, const DataFile::Blob& blob);
  const DataFile::Blob* find(std::string_view key) const;

  DataFiles files_;
  const ContentKeys& content_keys_;
  // Keys and blobs of the files.
  std::map<std::string_view, const DataFile::Blob*> blobs_;
  // Copies of blobs whose segments have other keys, too; nullptr: not copied yet.
  mutable std::map<const DataFile::Blob*, std::shared_ptr<Arena>> copies_;
  std::vector<const char*> keys_;
};

}  // namespace runner
