// The runtime's access to mapped bytes.
#pragma once

#include <string_view>

#include <executorch/runtime/core/data_loader.h>

#include "tools/runner/base/mapped_file.h"

namespace runner {

// Hands out the mapped bytes themselves. Memory that the runtime gives back is the kernel's again.
class MappedLoader final : public executorch::runtime::DataLoader {
 public:
  // Which must stay mapped.
  explicit MappedLoader(std::string_view bytes) : bytes_(bytes) {}

  executorch::runtime::Result<executorch::runtime::FreeableBuffer>
  load(size_t offset, size_t size, const SegmentInfo& info) const override;

  executorch::runtime::Error
  load_into(size_t offset, size_t size, const SegmentInfo& info, void* buffer) const override;

  executorch::runtime::Result<size_t> size() const override;

 private:
  std::string_view bytes_;
};

// Bytes of a mapped file, to be dropped when the runtime needs them no more.
executorch::runtime::FreeableBuffer buffer_of(const uint8_t* data, uint64_t size);

}  // namespace runner
