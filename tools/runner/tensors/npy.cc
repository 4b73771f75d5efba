#include "tools/runner/tensors/npy.h"

#include <cstring>

#include "tools/runner/base/fail.h"
#include "tools/runner/base/mapped_file.h"
#include "tools/runner/base/output.h"

namespace runner {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicSize = 6;
constexpr size_t kAlignment = 64;

[[noreturn]] void damaged(const std::string& path, const std::string& how) {
  fail(path + " is not a .npy file that the runner reads: " + how + ".");
}

// What follows "'key':" in the header, without spaces before it.
std::string value_of(const std::string& header, const std::string& key, const std::string& path) {
  const std::string name = "'" + key + "':";
  const size_t found = header.find(name);
  if (found == std::string::npos) {
    damaged(path, "its header has no \"" + key + "\"");
  }
  const size_t start = header.find_first_not_of(' ', found + name.size());
  return start == std::string::npos ? "" : header.substr(start);
}

std::vector<int64_t> parse_shape(const std::string& text, const std::string& path) {
  std::vector<int64_t> shape;
  size_t i = 1;
  if (text.empty() || text[0] != '(') {
    damaged(path, "its shape is no tuple");
  }
  while (i < text.size() && text[i] != ')') {
    int64_t size = 0;
    bool has_digit = false;
    for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
      size = size * 10 + (text[i] - '0');
      has_digit = true;
      if (size > INT32_MAX) {
        damaged(path, "its shape is too big");
      }
    }
    if (has_digit) {
      shape.push_back(size);
    } else if (text[i] == ',' || text[i] == ' ') {
      ++i;
    } else {
      damaged(path, "its shape is no tuple of numbers");
    }
  }
  return shape;
}

}  // namespace

Array read_npy(const std::string& path) {
  const MappedFile file(path, "an input");
  const uint8_t* bytes = file.data();
  if (file.size() < 12 || memcmp(bytes, kMagic, kMagicSize) != 0) {
    damaged(path, "it doesn't start with NumPy's magic");
  }
  const bool is_first_version = bytes[6] == 1;
  const size_t start = is_first_version ? 10 : 12;
  uint64_t length = bytes[8] | bytes[9] << 8;
  if (!is_first_version) {
    length |= uint64_t{bytes[10]} << 16 | uint64_t{bytes[11]} << 24;
  }
  if (length > file.size() - start) {
    damaged(path, "it is truncated");
  }
  const std::string header(reinterpret_cast<const char*>(bytes) + start, length);
  const std::string descr = value_of(header, "descr", path);
  const std::string quoted = descr.substr(0, descr.find_first_of("'\"", 1));
  Array array;
  array.dtype = quoted.empty() ? nullptr : dtype_of_npy(quoted.substr(1));
  if (array.dtype == nullptr) {
    damaged(path, "its dtype is " + descr.substr(0, descr.find(',')) + ", wanted one of " +
                      dtype_names() + ", little-endian");
  }
  if (value_of(header, "fortran_order", path).rfind("False", 0) != 0) {
    damaged(path, "it is in Fortran order; save it with numpy.ascontiguousarray");
  }
  array.shape = parse_shape(value_of(header, "shape", path), path);
  const int64_t wanted = bytes_of(*array.dtype, array.shape);
  const uint64_t got = file.size() - start - length;
  if (wanted < 0 || static_cast<uint64_t>(wanted) != got) {
    damaged(path, "it has " + std::to_string(got) + " bytes of data, its shape wants " +
                      (wanted < 0 ? "more" : std::to_string(wanted)));
  }
  array.data.assign(bytes + start + length, bytes + file.size());
  return array;
}

void write_npy(const std::string& path, const Array& array) {
  if (array.dtype->npy == nullptr) {
    fail(path + " would be " + array.dtype->name +
         ", which .npy files don't have; choose --output_format safetensors or raw.");
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
  header += std::string((kAlignment - unpadded % kAlignment) % kAlignment, ' ') + '\n';
  std::string head(kMagic, kMagicSize);
  head += {'\1', '\0', static_cast<char>(header.size() & 255),
           static_cast<char>(header.size() >> 8)};
  head += header;
  write_file(path, {head, {reinterpret_cast<const char*>(array.data.data()), array.data.size()}});
}

}  // namespace runner
