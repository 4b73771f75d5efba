#include "tools/runner/files/executorch_files.h"

#include <atomic>
#include <cstring>
#include <map>
#include <set>

#include <executorch/runtime/core/exec_aten/util/scalar_type_util.h>

#include "tools/runner/base/checksum.h"
#include "tools/runner/base/lock.h"
#include "tools/runner/files/flatbuffer.h"

namespace runner {
namespace {

// Of a .ptd file: magic, u32 length, then u64: start and size of the tables, segment base, bytes of segments.
constexpr uint64_t kHeader = 8;
constexpr uint64_t kDataHeadSize = kHeader + 40;

constexpr char kBadTables[] = "its tables lead outside of them, or overlap";

Status damaged(const std::string& path, const std::string& how) {
  return error(path + " is damaged: " + how + "; fetch or build it again.");
}

// Reads a tensor's layout, and returns its size in bytes; -1: the layout is invalid.
int64_t read_layout(FlatBuffer& tables, uint64_t table, KeyLayout& layout) {
  using executorch::aten::ScalarType;
  layout.scalar_type = tables.scalar<int8_t>(table, 0);
  const auto type = static_cast<ScalarType>(layout.scalar_type);
  const FlatBuffer::Vector sizes = tables.vector(table, 1, 4);
  const FlatBuffer::Vector dim_order = tables.vector(table, 2, 1);
  if (tables.damaged() || dim_order.length != sizes.length ||
      !executorch::runtime::isValid(type)) {
    return -1;
  }
  int64_t bytes = static_cast<int64_t>(executorch::runtime::elementSize(type));
  for (uint32_t i = 0; i < sizes.length; ++i) {
    const int64_t size = tables.read<int32_t>(sizes.start + 4 * uint64_t{i});
    const bool overflows = size < 0 || __builtin_mul_overflow(bytes, size, &bytes);
    layout.sizes.push_back(static_cast<int32_t>(size));
    layout.dim_order.push_back(tables.read<uint8_t>(dim_order.start + i));
    if (overflows || layout.dim_order.back() >= sizes.length) {
      return -1;
    }
  }
  return bytes;
}

// Of a .pte file: magic, u32 length, then u64: size of the tables, segment base and, if long enough, segment bytes.
constexpr uint64_t kProgramHeadSize = kHeader + 24;
constexpr uint32_t kLengthWithDataSize = 32;
constexpr int kInlinePayloadsField = 3;
constexpr int kSegmentsField = 4;
constexpr int kNamedDataField = 7;

Status truncated(const std::string& path, uint64_t size) {
  return error(path + " is truncated or damaged: it has " + std::to_string(size) +
       " bytes and its tables name more; fetch or build it again.");
}

}  // namespace

Result<DataFile> DataFile::open(const std::string& path) {
  DataFile opened(TRY(MappedFile::open_shared(path, "a data file")));
  TRY(opened.read());
  return opened;
}

Status DataFile::read() {
  const uint64_t size = file_->size();
  if (size < kDataHeadSize || memcmp(file_->data() + 4, "FT01", 4) != 0) {
    return error(path() + " is not an ExecuTorch data file: it has no \"FT01\" at byte 4.");
  }
  if (memcmp(file_->data() + kHeader, "FH01", 4) != 0) {
    return damaged(path(), "it has no header \"FH01\" at byte 8");
  }
  FlatBuffer head(file_->data(), size);
  const uint64_t start = head.read<uint64_t>(kHeader + 8);
  const uint64_t length = head.read<uint64_t>(kHeader + 16);
  const uint64_t base = head.read<uint64_t>(kHeader + 24);
  const uint64_t data_size = head.read<uint64_t>(kHeader + 32);
  if (start > size || length > size - start || base > size || data_size > size - base) {
    return error(path() + " is truncated or damaged: it has " + std::to_string(size) +
                 " bytes and its header names more; fetch or build it again.");
  }
  FlatBuffer tables(file_->data(), start + length);
  const uint64_t root = tables.root();
  tables.scalar<uint32_t>(root, 0);
  const FlatBuffer::Vector segments = tables.vector(root, 1, 4);
  const FlatBuffer::Vector named = tables.vector(root, 2, 4);
  for (uint32_t i = 0; i < named.length && !tables.damaged(); ++i) {
    TRY(read_named(segments, tables.table_in(named, i), base, tables));
  }
  if (tables.damaged()) {
    return damaged(path(), kBadTables);
  }
  return check_segments();
}

Status DataFile::read_named(
    const FlatBuffer::Vector& segments,
    uint64_t item,
    uint64_t base,
    FlatBuffer& tables) {
  const std::string key(tables.string(item, 0));
  const uint32_t index = tables.scalar<uint32_t>(item, 1);
  if (index >= segments.length) {
    return damaged(path(), "key \"" + key + "\" names a segment that does not exist");
  }
  const uint64_t segment = tables.table_in(segments, index);
  const uint64_t offset = tables.scalar<uint64_t>(segment, 0);
  const uint64_t bytes = tables.scalar<uint64_t>(segment, 1);
  const uint64_t available = file_->size() - base;
  if (offset > available || bytes > available - offset) {
    return damaged(path(), "the data of key \"" + key + "\" ends after the file");
  }
  Blob blob;
  blob.data = file_->data() + base + offset;
  blob.size = bytes;
  const uint64_t layout = tables.table(item, 2);
  const bool fits =
      layout == 0 || read_layout(tables, layout, blob.layout.emplace()) == static_cast<int64_t>(bytes);
  if (!fits && !tables.damaged()) {
    return damaged(
        path(), "the shape of key \"" + key + "\" does not fit its " + std::to_string(bytes) + " bytes");
  }
  if (!blobs_.emplace(key, std::move(blob)).second) {
    return damaged(path(), "it has key \"" + key + "\" twice");
  }
  return {};
}

// Keys may share a segment. Overlapping segments would be hashed repeatedly.
Status DataFile::check_segments() const {
  std::set<Segment> ranges;
  for (const auto& [key, blob] : blobs_) {
    if (blob.size > 0) {
      ranges.emplace(blob.data, blob.size);
    }
  }
  const uint8_t* end = nullptr;
  for (const auto& [data, size] : ranges) {
    if (end != nullptr && data < end) {
      return damaged(path(), "its segments overlap");
    }
    end = data + size;
  }
  return {};
}

uint32_t DataFile::crc32_of(const std::string& key) const {
  const Blob& blob = blobs_.find(key)->second;
  return file_->crc32_of(blob.data, blob.size);
}

std::string DataFile::sha256_of(const std::string& key) const {
  const Blob& blob = blobs_.find(key)->second;
  return file_->sha256_of(blob.data, blob.size);
}

namespace {

// Returns the result of `read` for a path, read once.
template <class Value, class Read>
Result<std::shared_ptr<const Value>> read_once(
    std::map<std::string, std::shared_ptr<const Value>>& known, const std::string& path, const Read& read) {
  std::shared_ptr<const Value>& value = known[path];
  if (value == nullptr) {
    value = std::make_shared<Value>(TRY(read(path)));
  }
  return value;
}

}  // namespace

Result<std::shared_ptr<const DataFile>> OpenDataFiles::open(const std::string& path) {
  return read_once(files_, path, DataFile::open);
}

Result<std::shared_ptr<const Manifest>> OpenDataFiles::manifest(const std::string& path) {
  return read_once(manifests_, path, read_manifest);
}

Result<ProgramContents> check_program_file(const std::string& path, std::string_view bytes) {
  const uint64_t size = bytes.size();
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (size < kHeader || memcmp(data + 4, "ET12", 4) != 0) {
    return error(path + " is not an ExecuTorch program: it has no \"ET12\" at byte 4.");
  }
  uint64_t tables_size = size;
  uint64_t base = 0;
  const bool has_header = size >= kProgramHeadSize && memcmp(data + kHeader, "eh00", 4) == 0;
  if (has_header) {
    FlatBuffer head(data, size);
    tables_size = head.read<uint64_t>(kHeader + 8);
    base = head.read<uint64_t>(kHeader + 16);
    if (tables_size > size || base > size) {
      return truncated(path, size);
    }
    if (head.read<uint32_t>(kHeader + 4) >= kLengthWithDataSize &&
        head.read<uint64_t>(kHeader + 24) > size - base) {
      return truncated(path, size);
    }
  }
  FlatBuffer tables(data, tables_size);
  const uint64_t root = tables.root();
  const FlatBuffer::Vector segments = tables.vector(root, kSegmentsField, 4);
  std::vector<uint64_t> sizes;
  for (uint32_t i = 0; i < segments.length && !tables.damaged(); ++i) {
    const uint64_t segment = tables.table_in(segments, i);
    const uint64_t offset = tables.scalar<uint64_t>(segment, 0);
    const uint64_t length = tables.scalar<uint64_t>(segment, 1);
    // A program without weights has an empty segment and no header.
    const bool has_no_base = base == 0 && length > 0;
    if (has_no_base || offset > size - base || length > size - base - offset) {
      return truncated(path, size);
    }
    sizes.push_back(length);
  }
  ProgramContents contents;
  contents.has_inline_payloads = tables.vector(root, kInlinePayloadsField, 4).length > 0;
  const FlatBuffer::Vector named_data = tables.vector(root, kNamedDataField, 4);
  for (uint32_t i = 0; i < named_data.length && !tables.damaged(); ++i) {
    const uint64_t item = tables.table_in(named_data, i);
    const uint32_t segment = tables.scalar<uint32_t>(item, 1);
    if (segment >= sizes.size()) {
      return truncated(path, size);
    }
    const std::string key(tables.string(item, 0));
    if (!contents.named_data.emplace(key, sizes[segment]).second && !tables.damaged()) {
      return damaged(path, "it has the key \"" + key + "\" twice");
    }
  }
  if (tables.damaged()) {
    return damaged(path, kBadTables);
  }
  return contents;
}

}  // namespace runner
