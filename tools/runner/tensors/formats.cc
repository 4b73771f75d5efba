#include "tools/runner/tensors/formats.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "tools/runner/base/files.h"
#include "tools/runner/base/json.h"
#include "tools/runner/base/result.h"

namespace runner {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicSize = 6;
constexpr size_t kDataAlignment = 64;

Status damaged(const std::string& path, const std::string& how) {
  return error(path + " is not a .npy file that the runner reads: " + how + ".");
}

// The text after "'key':" in the header, without leading spaces.
Result<std::string> value_of(const std::string& header, const std::string& key, const std::string& path) {
  const std::string name = "'" + key + "':";
  const size_t position = header.find(name);
  if (position == std::string::npos) {
    return damaged(path, "its header has no \"" + key + "\"");
  }
  const size_t start = header.find_first_not_of(' ', position + name.size());
  return start == std::string::npos ? "" : header.substr(start);
}

Result<std::vector<int64_t>> parse_shape(const std::string& text, const std::string& path) {
  std::vector<int64_t> shape;
  size_t i = 1;
  if (text.empty() || text[0] != '(') {
    return damaged(path, "its shape is not a tuple");
  }
  while (i < text.size() && text[i] != ')') {
    int64_t size = 0;
    bool has_digit = false;
    for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
      size = size * 10 + (text[i] - '0');
      has_digit = true;
      if (size > INT32_MAX) {
        return damaged(path, "its shape is too big");
      }
    }
    if (has_digit) {
      shape.push_back(size);
    } else if (text[i] == ',' || text[i] == ' ') {
      ++i;
    } else {
      return damaged(path, "its shape is not a tuple of numbers");
    }
  }
  return shape;
}

using nlohmann::json;

constexpr uint64_t kLengthSize = 8;
constexpr char kMetadata[] = "__metadata__";

std::string text_in(const json& entry, const char* key) {
  const auto member = entry.find(key);
  return member != entry.end() && member->is_string() ? member->get<std::string>() : "";
}

// The numbers of a list of sizes; none: it is not a list of sizes.
std::optional<std::vector<int64_t>> sizes_in(const json& entry, const char* key, size_t most) {
  const auto member = entry.find(key);
  if (member == entry.end() || !member->is_array() || member->size() > most) {
    return std::nullopt;
  }
  std::vector<int64_t> sizes;
  for (const json& size : *member) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > INT64_MAX) {
      return std::nullopt;
    }
    sizes.push_back(size.get<int64_t>());
  }
  return sizes;
}

}  // namespace

Result<Array> read_npy(const std::string& path) {
  const MappedFile file = TRY(MappedFile::open(path, "an input"));
  const uint8_t* bytes = file.data();
  if (file.size() < 12 || memcmp(bytes, kMagic, kMagicSize) != 0) {
    return damaged(path, "it does not start with NumPy's magic");
  }
  const bool is_first_version = bytes[6] == 1;
  const size_t start = is_first_version ? 10 : 12;
  uint64_t length = bytes[8] | bytes[9] << 8;
  if (!is_first_version) {
    length |= uint64_t{bytes[10]} << 16 | uint64_t{bytes[11]} << 24;
  }
  if (length > file.size() - start) {
    return damaged(path, "it is truncated");
  }
  const std::string header(reinterpret_cast<const char*>(bytes) + start, length);
  const std::string descr = TRY(value_of(header, "descr", path));
  const std::string quoted = descr.substr(0, descr.find_first_of("'\"", 1));
  Array array;
  array.dtype = quoted.empty() ? nullptr : dtype_of_npy(quoted.substr(1));
  if (array.dtype == nullptr) {
    return damaged(path, "its dtype is " + descr.substr(0, descr.find(',')) + ", expected one of " +
                      dtype_names() + ", little-endian");
  }
  const std::string fortran_order = TRY(value_of(header, "fortran_order", path));
  if (fortran_order.rfind("False", 0) != 0) {
    return damaged(path, "it is in Fortran order; save it with numpy.ascontiguousarray");
  }
  const std::string shape = TRY(value_of(header, "shape", path));
  array.shape = TRY(parse_shape(shape, path));
  if (array.shape.size() > kMaxDimensions) {
    return damaged(path, "it has " + std::to_string(array.shape.size()) + " dimensions, expected at most " +
                      std::to_string(kMaxDimensions));
  }
  const int64_t expected = bytes_of(*array.dtype, array.shape);
  const uint64_t got = file.size() - start - length;
  if (expected < 0 || static_cast<uint64_t>(expected) != got) {
    return damaged(path, "it has " + std::to_string(got) + " bytes of data, expected " +
                      (expected < 0 ? "more" : std::to_string(expected)) + " for its shape");
  }
  array.data.assign(bytes + start + length, bytes + file.size());
  return array;
}

Result<std::string> npy_head(const std::string& path, const ArrayView& array) {
  if (array.dtype->npy == nullptr) {
    return error(path + " would be " + array.dtype->name +
         ", which .npy files do not have; choose --output_format safetensors or raw.");
  }
  std::string shape;
  for (const int64_t size : array.shape) {
    shape += std::to_string(size) + (array.shape.size() == 1 ? "," : ", ");
  }
  if (array.shape.size() > 1) {
    shape.resize(shape.size() - 2);
  }
  std::string header = "{'descr': '" + std::string(array.dtype->npy) +
      "', 'fortran_order': False, 'shape': (" + shape + "), }";
  const size_t unpadded = kMagicSize + 4 + header.size() + 1;
  header += std::string((kDataAlignment - unpadded % kDataAlignment) % kDataAlignment, ' ') + '\n';
  std::string head(kMagic, kMagicSize);
  head += {'\1', '\0', static_cast<char>(header.size() & 255),
           static_cast<char>(header.size() >> 8)};
  return head + header;
}

Status SafetensorsFile::damaged(const std::string& how) const {
  return error(file_.path() + " is not a .safetensors file that the runner reads: " + how + ".");
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  SafetensorsFile opened(TRY(MappedFile::open(path, "an input")));
  TRY(opened.read());
  return opened;
}

Status SafetensorsFile::read() {
  uint64_t length = 0;
  if (file_.size() < kLengthSize) {
    return damaged("it is truncated");
  }
  memcpy(&length, file_.data(), kLengthSize);
  if (length > file_.size() - kLengthSize) {
    return damaged("it is truncated, or does not start with the size of its header");
  }
  Result<json> header = parse_json(file_.text().substr(kLengthSize, length));
  if (!header.ok()) {
    return damaged("its header cannot be read: " + header.sentence());
  }
  const uint64_t base = kLengthSize + length;
  const uint64_t available = file_.size() - base;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (auto item = header->begin(); item != header->end(); ++item) {
    if (item.key() == kMetadata) {
      continue;
    }
    const std::string what = "tensor \"" + item.key() + "\" ";
    if (!item->is_object()) {
      return damaged(what + "is described by no object");
    }
    const auto shape = sizes_in(*item, "shape", kMaxDimensions);
    const auto offsets = sizes_in(*item, "data_offsets", 2);
    if (!shape || !offsets || offsets->size() != 2) {
      return damaged(what + "lacks a shape of at most " + std::to_string(kMaxDimensions) +
              " dimensions, or offsets of data");
    }
    const auto start = static_cast<uint64_t>((*offsets)[0]), end = static_cast<uint64_t>((*offsets)[1]);
    if (start > end || end > available) {
      return damaged(what + "has data outside of the file");
    }
    if (start < end) {
      ranges.emplace_back(start, end);
    }
    entries_[item.key()] = {text_in(*item, "dtype"), *shape, base + start, base + end};
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) {
      return damaged("its tensors' data overlap");
    }
  }
  return {};
}

Result<Array> SafetensorsFile::tensor(const std::string& name) const {
  const auto match = entries_.find(name);
  if (match == entries_.end()) {
    std::string names;
    for (const auto& [other, entry] : entries_) {
      names += names.size() < 200 ? (names.empty() ? "" : ", ") + other : "";
    }
    return error(file_.path() + " has no tensor \"" + name + "\"; available: " +
         (names.empty() ? "none" : names) + ". Choose one with " + file_.path() + ":NAME.");
  }
  const Entry& entry = match->second;
  const std::string what = "tensor \"" + name + "\" ";
  Array array;
  array.dtype = dtype_of_safetensors(entry.dtype);
  if (array.dtype == nullptr) {
    return damaged(what + "is " + entry.dtype + ", expected one of " + dtype_names());
  }
  array.shape = entry.shape;
  const int64_t expected = bytes_of(*array.dtype, array.shape);
  if (expected < 0 || static_cast<uint64_t>(expected) != entry.end - entry.start) {
    return damaged(what + "has data of another size than its shape's");
  }
  array.data.assign(file_.data() + entry.start, file_.data() + entry.end);
  return array;
}

std::string safetensors_head(const std::vector<std::pair<std::string, ArrayView>>& tensors) {
  // Appends in order. Insertion by name would search all names.
  nlohmann::ordered_json::object_t header;
  uint64_t offset = 0;
  for (const auto& [name, array] : tensors) {
    const uint64_t end = offset + array.size;
    const nlohmann::ordered_json entry = {
        {"dtype", array.dtype->safetensors}, {"shape", array.shape}, {"data_offsets", {offset, end}}};
    header.push_back({name, entry});
    offset = end;
  }
  std::string text = nlohmann::ordered_json(header).dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string head(kLengthSize, '\0');
  memcpy(&head[0], &length, kLengthSize);
  return head + text;
}

}  // namespace runner
