#include "tools/runner/engine/data_map.h"

#include <cstring>

#include "tools/runner/engine/mapped_loader.h"

namespace runner {

using executorch::runtime::Error;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;
using executorch::runtime::TensorLayout;

DataMap::DataMap(DataFiles files, const std::map<std::string, uint64_t>& of_program)
    : files_(std::move(files)) {
  for (const auto& file : files_) {
    for (const auto& [key, blob] : file->blobs()) {
      if (of_program.count(key) == 0) {
        blobs_.emplace(key, &blob);
        keys_.push_back(key.c_str());
      }
    }
  }
}

const DataFile::Blob* DataMap::find(std::string_view key) const {
  const auto found = blobs_.find(key);
  return found == blobs_.end() ? nullptr : found->second;
}

Result<const TensorLayout> DataMap::get_tensor_layout(std::string_view key) const {
  const DataFile::Blob* blob = find(key);
  if (blob == nullptr || !blob->has_layout) {
    return Error::NotFound;
  }
  return TensorLayout::create(
      {blob->sizes.data(), blob->sizes.size()},
      {blob->dim_order.data(), blob->dim_order.size()},
      static_cast<executorch::aten::ScalarType>(blob->scalar_type));
}

Result<FreeableBuffer> DataMap::get_data(std::string_view key) const {
  const DataFile::Blob* blob = find(key);
  if (blob == nullptr) {
    return Error::NotFound;
  }
  return buffer_of(blob->data, blob->size);
}

Error DataMap::load_data_into(std::string_view key, void* buffer, size_t size) const {
  const DataFile::Blob* blob = find(key);
  if (blob == nullptr) {
    return Error::NotFound;
  }
  if (size > blob->size) {
    return Error::InvalidExternalData;
  }
  memcpy(buffer, blob->data, size);
  return Error::Ok;
}

Result<uint32_t> DataMap::get_num_keys() const {
  return static_cast<uint32_t>(keys_.size());
}

Result<const char*> DataMap::get_key(uint32_t index) const {
  if (index >= keys_.size()) {
    return Error::InvalidArgument;
  }
  return keys_[index];
}

}  // namespace runner
