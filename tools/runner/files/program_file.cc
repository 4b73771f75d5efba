#include "tools/runner/files/program_file.h"

#include <cstring>
#include <vector>

#include "tools/runner/base/fail.h"
#include "tools/runner/files/flatbuffer.h"

namespace runner {
namespace {

// Magic, u32 length, then u64: size of the tables, segment base and, if long enough, segment bytes.
constexpr uint64_t kHeader = 8;
constexpr uint64_t kHeadSize = kHeader + 24;
constexpr uint32_t kLengthWithDataSize = 32;
constexpr int kSegmentsField = 4;
constexpr int kNamedDataField = 7;

[[noreturn]] void truncated(const std::string& path, uint64_t size) {
  fail(path + " is truncated or damaged: it has " + std::to_string(size) +
       " bytes and its tables name more; fetch or build it again.");
}

}  // namespace

std::map<std::string, uint64_t> check_program_file(const std::string& path, std::string_view bytes) {
  const uint64_t size = bytes.size();
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (size < kHeader || memcmp(data + 4, "ET12", 4) != 0) {
    fail(path + " is not an ExecuTorch program: it has no \"ET12\" at byte 4.");
  }
  uint64_t tables_size = size;
  uint64_t base = 0;
  const bool has_header = size >= kHeadSize && memcmp(data + kHeader, "eh00", 4) == 0;
  if (has_header) {
    FlatBuffer head(data, size);
    tables_size = head.read<uint64_t>(kHeader + 8);
    base = head.read<uint64_t>(kHeader + 16);
    if (tables_size > size || base > size) {
      truncated(path, size);
    }
    if (head.read<uint32_t>(kHeader + 4) >= kLengthWithDataSize &&
        head.read<uint64_t>(kHeader + 24) > size - base) {
      truncated(path, size);
    }
  }
  FlatBuffer tables(data, tables_size);
  const uint64_t root = tables.root();
  const FlatBuffer::Vector segments = tables.vector(root, kSegmentsField, 4);
  std::vector<uint64_t> sizes;
  for (uint32_t i = 0; i < segments.length; ++i) {
    const uint64_t segment = tables.table_in(segments, i);
    const uint64_t offset = tables.scalar<uint64_t>(segment, 0);
    const uint64_t length = tables.scalar<uint64_t>(segment, 1);
    // A program without weights has an empty segment and no header.
    const bool has_no_base = base == 0 && length > 0;
    if (has_no_base || offset > size - base || length > size - base - offset) {
      truncated(path, size);
    }
    sizes.push_back(length);
  }
  std::map<std::string, uint64_t> named;
  const FlatBuffer::Vector named_data = tables.vector(root, kNamedDataField, 4);
  for (uint32_t i = 0; i < named_data.length && !tables.damaged(); ++i) {
    const uint64_t item = tables.table_in(named_data, i);
    const uint32_t segment = tables.scalar<uint32_t>(item, 1);
    if (segment >= sizes.size()) {
      truncated(path, size);
    }
    named[std::string(tables.string(item, 0))] = sizes[segment];
  }
  if (tables.damaged()) {
    fail(path + " is damaged: its tables lead outside of them, or lie over each other; fetch or build it again.");
  }
  return named;
}

}  // namespace runner
