#include "tools/runner/files/data_file.h"

#include <cstring>

#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>

#include "tools/runner/base/crc32.h"
#include "tools/runner/base/fail.h"
#include "tools/runner/files/flatbuffer.h"
#include "tools/runner/base/sha256.h"

namespace runner {
namespace {

// Magic, u32 length, then u64: start and size of the tables, segment base, bytes of segments.
constexpr uint64_t kHeader = 8;
constexpr uint64_t kHeadSize = kHeader + 40;

[[noreturn]] void damaged(const std::string& path, const std::string& how) {
  fail(path + " is damaged: " + how + "; fetch or build it again.");
}

// Reads a tensor's layout, and gives what it says its bytes are; -1: the layout makes no sense.
int64_t read_layout(FlatBuffer& tables, uint64_t layout, DataFile::Blob& blob) {
  using executorch::aten::ScalarType;
  blob.has_layout = true;
  blob.scalar_type = tables.scalar<int8_t>(layout, 0);
  const auto type = static_cast<ScalarType>(blob.scalar_type);
  const FlatBuffer::Vector sizes = tables.vector(layout, 1, 4);
  const FlatBuffer::Vector dim_order = tables.vector(layout, 2, 1);
  if (tables.damaged() || dim_order.length != sizes.length ||
      !executorch::runtime::isValid(type)) {
    return -1;
  }
  int64_t bytes = static_cast<int64_t>(executorch::runtime::elementSize(type));
  for (uint32_t i = 0; i < sizes.length; ++i) {
    const int64_t size = tables.read<int32_t>(sizes.start + 4 * uint64_t{i});
    const bool overflows = size < 0 || __builtin_mul_overflow(bytes, size, &bytes);
    blob.sizes.push_back(static_cast<int32_t>(size));
    blob.dim_order.push_back(tables.read<uint8_t>(dim_order.start + i));
    if (overflows || blob.dim_order.back() >= sizes.length) {
      return -1;
    }
  }
  return bytes;
}

}  // namespace

DataFile::DataFile(const std::string& path)
    : file_(std::make_unique<MappedFile>(path, "a data file")) {
  const uint64_t size = file_->size();
  if (size < kHeadSize || memcmp(file_->data() + 4, "FT01", 4) != 0) {
    fail(path + " is not an ExecuTorch data file: it has no \"FT01\" at byte 4.");
  }
  if (memcmp(file_->data() + kHeader, "FH01", 4) != 0) {
    damaged(path, "it has no header \"FH01\" at byte 8");
  }
  FlatBuffer head(file_->data(), size);
  const uint64_t start = head.read<uint64_t>(kHeader + 8);
  const uint64_t length = head.read<uint64_t>(kHeader + 16);
  const uint64_t base = head.read<uint64_t>(kHeader + 24);
  const uint64_t data_size = head.read<uint64_t>(kHeader + 32);
  if (start > size || length > size - start || base > size || data_size > size - base) {
    fail(path + " is truncated or damaged: it has " + std::to_string(size) +
         " bytes and its header names more; fetch or build it again.");
  }
  FlatBuffer tables(file_->data(), start + length);
  const uint64_t root = tables.root();
  tables.scalar<uint32_t>(root, 0);
  const FlatBuffer::Vector segments = tables.vector(root, 1, 4);
  const FlatBuffer::Vector named = tables.vector(root, 2, 4);
  for (uint32_t i = 0; i < named.length && !tables.damaged(); ++i) {
    const uint64_t item = tables.table_in(named, i);
    const std::string key(tables.string(item, 0));
    const uint32_t index = tables.scalar<uint32_t>(item, 1);
    if (index >= segments.length) {
      damaged(path, "key \"" + key + "\" names a segment that it doesn't have");
    }
    const uint64_t segment = tables.table_in(segments, index);
    const uint64_t offset = tables.scalar<uint64_t>(segment, 0);
    const uint64_t bytes = tables.scalar<uint64_t>(segment, 1);
    if (offset > size - base || bytes > size - base - offset) {
      damaged(path, "the data of key \"" + key + "\" ends after the file");
    }
    Blob blob;
    blob.data = file_->data() + base + offset;
    blob.size = bytes;
    const uint64_t layout = tables.table(item, 2);
    const bool fits = layout == 0 || read_layout(tables, layout, blob) == static_cast<int64_t>(bytes);
    if (!fits && !tables.damaged()) {
      damaged(path, "the shape of key \"" + key + "\" doesn't fit its " + std::to_string(bytes) +
                        " bytes");
    }
    if (!blobs_.emplace(key, std::move(blob)).second) {
      damaged(path, "it has key \"" + key + "\" twice");
    }
  }
  if (tables.damaged()) {
    damaged(path, "its tables lead outside of them, or lie over each other");
  }
}

uint32_t DataFile::crc32_of(const std::string& key) const {
  const auto known = crc32s_.find(key);
  if (known != crc32s_.end()) {
    return known->second;
  }
  const Blob& blob = blobs_.find(key)->second;
  const uint32_t sum = crc32_of_mapped(blob.data, blob.size);
  crc32s_[key] = sum;
  return sum;
}

std::string DataFile::sha256_of(const std::string& key) const {
  const Blob& blob = blobs_.find(key)->second;
  std::string digest = sha256(blob.data, blob.size);
  drop_pages(blob.data, blob.size);
  return digest;
}

std::shared_ptr<const DataFile> OpenDataFiles::open(const std::string& path) {
  std::shared_ptr<const DataFile>& file = files_[path];
  if (file == nullptr) {
    file = std::make_shared<DataFile>(path);
  }
  return file;
}

}  // namespace runner
