#include "tools/runner/engine/arenas.h"

#include <cstdlib>

#include "tools/runner/base/fail.h"
#include "tools/runner/base/memory.h"
#include "tools/runner/engine/runtime_error.h"

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

}  // namespace

Arena::Arena(size_t size) : block_(calloc(size + kAlignment, 1)), size_(size) {
  if (block_ == nullptr) {
    fail("there are no " + std::to_string(size) + " bytes of memory for a program's tensors.");
  }
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

ArenaMaker::ArenaMaker(const executorch::runtime::Program& program, std::string name)
    : name_(std::move(name)) {
  size_t sharers = 0;
  for (size_t i = 0; i < program.num_methods(); ++i) {
    const auto method = program.get_method_name(i);
    check(method.error(), name_ + ": its methods can't be read");
    const auto meta = program.method_meta(*method);
    check(meta.error(), name_ + ": method \"" + *method + "\" can't be read");
    const std::vector<size_t> sizes = sizes_of(*meta);
    if (sizes.size() <= kState) {
      continue;
    }
    if (sizes.size() > kState + 1 || (sharers > 0 && sizes[kState] != shared_size_)) {
      shared_size_ = 0;
      return;
    }
    shared_size_ = sizes[kState];
    ++sharers;
  }
  if (sharers < 2) {
    shared_size_ = 0;
  }
}

std::vector<size_t> ArenaMaker::sizes_of(const MethodMeta& method) const {
  std::vector<size_t> sizes;
  for (size_t i = 0; i < method.num_memory_planned_buffers(); ++i) {
    const auto size = method.memory_planned_buffer_size(i);
    check(size.error(),
          name_ + ": the memory plan of method \"" + method.name() + "\" can't be read");
    sizes.push_back(static_cast<size_t>(*size));
  }
  return sizes;
}

std::unique_ptr<Arenas> ArenaMaker::make(const MethodMeta& method) {
  const std::vector<size_t> sizes = sizes_of(method);
  // A damaged program may plan anything.
  uint64_t left = available_memory();
  for (const size_t size : sizes) {
    if (size > left) {
      fail(name_ + ": method \"" + method.name() +
           "\" plans more memory than is free; the program is damaged, or too big.");
    }
    left -= size;
  }
  std::vector<std::shared_ptr<Arena>> arenas;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool is_shared = i == kState && shared_size_ > 0;
    if (is_shared && shared_ == nullptr) {
      shared_ = std::make_shared<Arena>(shared_size_);
    }
    arenas.push_back(is_shared ? shared_ : std::make_shared<Arena>(sizes[i]));
  }
  return std::make_unique<Arenas>(std::move(arenas));
}

}  // namespace runner
