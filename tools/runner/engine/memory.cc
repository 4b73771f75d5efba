#include "tools/runner/engine/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tools/runner/base/os.h"
#include "tools/runner/engine/runtime.h"

namespace et = executorch::runtime;

namespace runner {
namespace {

constexpr size_t kAlignment = 64;
// Index of the arena with state that methods share.
constexpr size_t kState = 1;

using executorch::runtime::MethodMeta;
using executorch::runtime::Span;

std::vector<Span<uint8_t>> bytes_of(const std::vector<std::shared_ptr<Arena>>& arenas) {
  std::vector<Span<uint8_t>> bytes;
  for (const auto& arena : arenas) {
    bytes.push_back(arena->bytes());
  }
  return bytes;
}

// Bytes of a mapped file, dropped when the runtime no longer needs them. The runtime's BufferDataLoader
// would keep them in memory.
et::FreeableBuffer buffer_of(const uint8_t* data, uint64_t size) {
  const auto free = [](void*, void* bytes, size_t length) {
    drop_pages(static_cast<const uint8_t*>(bytes), length);
  };
  return et::FreeableBuffer(data, size, free);
}

bool is_of_xnnpack(const et::DataLoader::SegmentInfo& info) {
  return info.segment_type == et::DataLoader::SegmentInfo::Type::Backend && info.descriptor != nullptr &&
      strcmp(info.descriptor, kXnnpack) == 0;
}

// A copy of a payload, dropped when the runtime no longer needs it.
et::Result<et::FreeableBuffer> copy_of_payload(
    const uint8_t* data,
    uint64_t size,
    const ContentKeys& content_keys) {
  void* block = nullptr;
  if (posix_memalign(&block, kAlignment, std::max<size_t>(size, 1)) != 0) {
    return et::Error::MemoryAllocationFailed;
  }
  memcpy(block, data, size);
  drop_pages(data, size);
  et::FreeableBuffer copy(block, size, [](void*, void* bytes, size_t) { free(bytes); });
  if (!replace_keys(static_cast<uint8_t*>(block), size, content_keys)) {
    return et::Error::InvalidProgram;
  }
  return copy;
}

}  // namespace

HeapAllocator::~HeapAllocator() {
  HeapAllocator::reset();
}

void* HeapAllocator::allocate(size_t size, size_t alignment) {
  // First, because this may throw.
  blocks_.push_back(nullptr);
  void* block = nullptr;
  // posix_memalign needs a power of two of at least a pointer's size, and a block of at least one byte.
  const size_t block_alignment = std::max(alignment, sizeof(void*));
  if (posix_memalign(&block, block_alignment, std::max<size_t>(size, 1)) != 0) {
    return nullptr;
  }
  blocks_.back() = block;
  return block;
}

void HeapAllocator::reset() {
  for (void* block : blocks_) {
    free(block);
  }
  blocks_.clear();
}

Result<std::shared_ptr<Arena>> Arena::create(size_t size) {
  std::shared_ptr<Arena> arena(new Arena(size));
  if (arena->block_ == nullptr) {
    return error("out of memory: cannot allocate " + std::to_string(size) + " bytes for a program's tensors.");
  }
  return arena;
}

Arena::Arena(size_t size) : block_(calloc(size + kAlignment, 1)), size_(size) {
  const auto start = reinterpret_cast<uintptr_t>(block_);
  aligned_ = reinterpret_cast<uint8_t*>((start + kAlignment - 1) / kAlignment * kAlignment);
}

Arena::~Arena() {
  free(block_);
}

Arenas::Arenas(std::vector<std::shared_ptr<Arena>> arenas)
    : arenas_(std::move(arenas)),
      bytes_(bytes_of(arenas_)),
      allocator_(Span<Span<uint8_t>>(bytes_.data(), bytes_.size())) {}

Result<ArenaMaker> ArenaMaker::create(
    const executorch::runtime::Program& program,
    std::string name) {
  ArenaMaker maker(std::move(name));
  TRY(maker.find_shared(program));
  return maker;
}

Status ArenaMaker::find_shared(const executorch::runtime::Program& program) {
  size_t sharers = 0;
  for (size_t i = 0; i < program.num_methods(); ++i) {
    const auto method = program.get_method_name(i);
    TRY(check(method.error(), name_ + ": its methods cannot be read"));
    const auto meta = program.method_meta(*method);
    TRY(check(meta.error(), name_ + ": method \"" + *method + "\" cannot be read"));
    const std::vector<size_t> sizes = TRY(sizes_of(*meta));
    if (sizes.size() <= kState) {
      continue;
    }
    if (sizes.size() > kState + 1 || (sharers > 0 && sizes[kState] != shared_size_)) {
      shared_size_ = 0;
      return {};
    }
    shared_size_ = sizes[kState];
    ++sharers;
  }
  if (sharers < 2) {
    shared_size_ = 0;
  }
  return {};
}

Result<std::vector<size_t>> ArenaMaker::sizes_of(const MethodMeta& method) const {
  std::vector<size_t> sizes;
  for (size_t i = 0; i < method.num_memory_planned_buffers(); ++i) {
    const auto size = method.memory_planned_buffer_size(i);
    TRY(check(
        size.error(), name_ + ": the memory plan of method \"" + method.name() + "\" cannot be read"));
    sizes.push_back(static_cast<size_t>(*size));
  }
  return sizes;
}

Result<std::unique_ptr<Arenas>> ArenaMaker::make(const MethodMeta& method) {
  const std::vector<size_t> sizes = TRY(sizes_of(method));
  // A damaged program may plan any size.
  uint64_t left = available_memory();
  for (const size_t size : sizes) {
    if (size > left) {
      return error(name_ + ": method \"" + method.name() +
           "\" plans more memory than is free; the program is damaged, or too big.");
    }
    left -= size;
  }
  std::vector<std::shared_ptr<Arena>> arenas;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool is_shared = i == kState && shared_size_ > 0;
    if (is_shared && shared_ == nullptr) {
      shared_ = TRY(Arena::create(shared_size_));
    }
    arenas.push_back(is_shared ? shared_ : TRY(Arena::create(sizes[i])));
  }
  return std::make_unique<Arenas>(std::move(arenas));
}

et::Result<et::FreeableBuffer> MappedLoader::load(size_t offset, size_t size, const SegmentInfo& info) const {
  if (offset > bytes_.size() || size > bytes_.size() - offset) {
    return et::Error::InvalidProgram;
  }
  const uint8_t* data = reinterpret_cast<const uint8_t*>(bytes_.data()) + offset;
  if (!content_keys_.empty() && is_of_xnnpack(info)) {
    return copy_of_payload(data, size, content_keys_);
  }
  return buffer_of(data, size);
}

et::Error MappedLoader::load_into(size_t offset, size_t size, const SegmentInfo&, void* buffer) const {
  if (offset > bytes_.size() || size > bytes_.size() - offset) {
    return et::Error::InvalidProgram;
  }
  memcpy(buffer, bytes_.data() + offset, size);
  return et::Error::Ok;
}

et::Result<size_t> MappedLoader::size() const {
  return bytes_.size();
}

DataMap::DataMap(
    DataFiles files,
    const std::map<std::string, uint64_t>& of_program,
    const ContentKeys& content_keys,
    bool weight_cache)
    : files_(std::move(files)), content_keys_(content_keys) {
  std::set<const uint8_t*> addresses;
  for (const auto& file : files_) {
    for (const auto& [key, blob] : file->blobs()) {
      if (of_program.count(key) == 0) {
        add(key, blob);
        // Those with a layout are the runtime's own tensors.
        if (weight_cache && !blob.layout && blob.size > 0 && !addresses.insert(blob.data).second) {
          copies_[&blob] = nullptr;
        }
        const auto replaced = content_keys_.find(key);
        if (replaced != content_keys_.end()) {
          add(replaced->second, blob);
        }
      }
    }
  }
}

void DataMap::add(const std::string& key, const DataFile::Blob& blob) {
  blobs_.emplace(key, &blob);
  keys_.push_back(key.c_str());
}

const DataFile::Blob* DataMap::find(std::string_view key) const {
  const auto entry = blobs_.find(key);
  return entry == blobs_.end() ? nullptr : entry->second;
}

et::Result<const et::TensorLayout> DataMap::get_tensor_layout(std::string_view key) const {
  const DataFile::Blob* blob = find(key);
  if (blob == nullptr || !blob->layout) {
    return et::Error::NotFound;
  }
  return et::TensorLayout::create(
      {blob->layout->sizes.data(), blob->layout->sizes.size()},
      {blob->layout->dim_order.data(), blob->layout->dim_order.size()},
      static_cast<executorch::aten::ScalarType>(blob->layout->scalar_type));
}

et::Result<et::FreeableBuffer> DataMap::get_data(std::string_view key) const {
  const DataFile::Blob* blob = find(key);
  if (blob == nullptr) {
    return et::Error::NotFound;
  }
  const auto copy = copies_.find(blob);
  if (copy == copies_.end()) {
    return buffer_of(blob->data, blob->size);
  }
  if (copy->second == nullptr) {
    auto arena = Arena::create(blob->size);
    if (!arena.ok()) {
      return et::Error::MemoryAllocationFailed;
    }
    copy->second = arena.take_value();
    memcpy(copy->second->bytes().data(), blob->data, blob->size);
  }
  return et::FreeableBuffer(copy->second->bytes().data(), blob->size, nullptr);
}

et::Error DataMap::load_data_into(std::string_view key, void* buffer, size_t size) const {
  const DataFile::Blob* blob = find(key);
  if (blob == nullptr) {
    return et::Error::NotFound;
  }
  if (size > blob->size) {
    return et::Error::InvalidExternalData;
  }
  memcpy(buffer, blob->data, size);
  return et::Error::Ok;
}

et::Result<uint32_t> DataMap::get_num_keys() const {
  return static_cast<uint32_t>(keys_.size());
}

et::Result<const char*> DataMap::get_key(uint32_t index) const {
  if (index >= keys_.size()) {
    return et::Error::InvalidArgument;
  }
  return keys_[index];
}

}  // namespace runner
