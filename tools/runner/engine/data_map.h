// The data files of a program, as the runtime asks for them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <executorch/runtime/core/named_data_map.h>

#include "tools/runner/files/data_file.h"

namespace runner {

// All keys of some files but those that the program has itself: they are the program's.
class DataMap final : public executorch::runtime::NamedDataMap {
 public:
  DataMap(DataFiles files, const std::map<std::string, uint64_t>& of_program);

  executorch::runtime::Result<const executorch::runtime::TensorLayout> get_tensor_layout(
      std::string_view key) const override;
  executorch::runtime::Result<executorch::runtime::FreeableBuffer> get_data(
      std::string_view key) const override;
  executorch::runtime::Error
  load_data_into(std::string_view key, void* buffer, size_t size) const override;
  executorch::runtime::Result<uint32_t> get_num_keys() const override;
  executorch::runtime::Result<const char*> get_key(uint32_t index) const override;

 private:
  const DataFile::Blob* find(std::string_view key) const;

  DataFiles files_;
  // Keys and blobs of the files.
  std::map<std::string_view, const DataFile::Blob*> blobs_;
  std::vector<const char*> keys_;
};

}  // namespace runner
