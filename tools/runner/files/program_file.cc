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

[[noreturn]] void truncated(const MappedFile& file) {
  fail(file.path() + " is truncated or damaged: it has " + std::to_string(file.size()) +
       " bytes and its tables name more; fetch or build it again.");
}

}  // namespace

std::map<std::string, uint64_t> check_program_file(const MappedFile& file) {
  const uint64_t size = file.size();
  if (size < kHeader || memcmp(file.data() + 4, "ET12", 4) != 0) {
    fail(file.path() + " is not an ExecuTorch program: it has no \"ET12\" at byte 4.");
  }
  uint64_t tables_size = size;
  uint64_t base = 0;
  const bool has_header = size >= kHeadSize && memcmp(file.data() + kHeader, "eh00", 4) == 0;
  if (has_header) {
    FlatBuffer head(file.data(), size);
    tables_size = head.read<uint64_t>(kHeader + 8);
    base = head.read<uint64_t>(kHeader + 16);
    if (tables_size > size || base > size) {
      truncated(file);
    }
    if (head.read<uint32_t>(kHeader + 4) >= kLengthWithDataSize &&
        head.read<uint64_t>(kHeader + 24) > size - base) {
      truncated(file);
    }
  }
  FlatBuffer tables(file.data(), tables_size);
  const uint64_t root = tables.root();
  const FlatBuffer::Vector segments = tables.vector(root, kSegmentsField, 4);
  std::vector<uint64_t> sizes;
  for (uint32_t i = 0; i < segments.length; ++i) {
    const uint64_t segment = tables.table_in(segments, i);
    const uint64_t offset = tables.scalar<uint64_t>(segment, 0);
    const uint64_t bytes = tables.scalar<uint64_t>(segment, 1);
    // A program without weights has an empty segment and no header.
    const bool has_no_base = base == 0 && bytes > 0;
    if (has_no_base || offset > size - base || bytes > size - base - offset) {
      truncated(file);
    }
    sizes.push_back(bytes);
  }
  std::map<std::string, uint64_t> named;
  const FlatBuffer::Vector named_data = tables.vector(root, kNamedDataField, 4);
  for (uint32_t i = 0; i < named_data.length && !tables.damaged(); ++i) {
    const uint64_t item = tables.table_in(named_data, i);
    const uint32_t segment = tables.scalar<uint32_t>(item, 1);
    if (segment >= sizes.size()) {
      truncated(file);
    }
    named[std::string(tables.string(item, 0))] = sizes[segment];
  }
  if (tables.damaged()) {
    fail(file.path() + " is damaged: its tables lead outside of them; fetch or build it again.");
  }
  return named;
}

}  // namespace runner
