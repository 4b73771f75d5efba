#include "tools/runner/engine/mapped_loader.h"

#include <cstring>

namespace runner {

using executorch::runtime::Error;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;

FreeableBuffer buffer_of(const uint8_t* data, uint64_t size) {
  const auto free = [](void*, void* bytes, size_t length) {
    drop_pages(static_cast<const uint8_t*>(bytes), length);
  };
  return FreeableBuffer(data, size, free);
}

Result<FreeableBuffer> MappedLoader::load(size_t offset, size_t size, const SegmentInfo&) const {
  if (offset > bytes_.size() || size > bytes_.size() - offset) {
    return Error::InvalidProgram;
  }
  return buffer_of(reinterpret_cast<const uint8_t*>(bytes_.data()) + offset, size);
}

Error MappedLoader::load_into(size_t offset, size_t size, const SegmentInfo&, void* buffer) const {
  if (offset > bytes_.size() || size > bytes_.size() - offset) {
    return Error::InvalidProgram;
  }
  memcpy(buffer, bytes_.data() + offset, size);
  return Error::Ok;
}

Result<size_t> MappedLoader::size() const {
  return bytes_.size();
}

}  // namespace runner
