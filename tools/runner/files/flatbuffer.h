// Reads flatbuffers of unknown origin: every access is checked against the buffer.
//
// The flatbuffers library reads without checks, and no package has generated verifiers for the two schemas
// used here (program.fbs, flat_tensor.fbs).
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace runner {

class FlatBuffer {
 public:
  struct Vector {
    uint64_t start = 0;
    uint32_t length = 0;
  };

  FlatBuffer(const uint8_t* data, uint64_t size) : data_(data), size_(size) {}

  // True: an access so far led outside of the buffer, or vectors overlap, which no writer produces. Such
  // accesses return zeros.
  bool damaged() const { return damaged_; }

  uint64_t root() { return read<uint32_t>(0); }

  // Position of a table's field; 0: none.
  uint64_t field(uint64_t table, int number) {
    const uint64_t vtable = table - static_cast<uint64_t>(int64_t{read<int32_t>(table)});
    const uint64_t slot = 4 + 2 * static_cast<uint64_t>(number);
    if (slot + 2 > read<uint16_t>(vtable)) {
      return 0;
    }
    const uint16_t offset = read<uint16_t>(vtable + slot);
    return offset == 0 ? 0 : table + offset;
  }

  template <class T>
  T scalar(uint64_t table, int number) {
    const uint64_t position = field(table, number);
    return position == 0 ? T{} : read<T>(position);
  }

  // A table inside of another one; 0: none.
  uint64_t table(uint64_t table, int number) {
    const uint64_t position = field(table, number);
    return position == 0 ? 0 : position + read<uint32_t>(position);
  }

  Vector vector(uint64_t table, int number, uint64_t element_size) {
    const uint64_t position = this->table(table, number);
    if (position == 0) {
      return {};
    }
    const Vector result{position + 4, read<uint32_t>(position)};
    const uint64_t bytes = result.length * element_size;
    if (!inside(result.start, bytes)) {
      return {};
    }
    count(bytes);
    return damaged_ ? Vector{} : result;
  }

  // Each access counts as the smallest possible table: a file may reference a table many times.
  uint64_t table_in(const Vector& vector, uint32_t index) {
    count(4);
    const uint64_t position = vector.start + 4 * uint64_t{index};
    return position + read<uint32_t>(position);
  }

  // A string; upstream's reader also needs the zero byte after it.
  std::string_view string(uint64_t table, int number) {
    const Vector bytes = vector(table, number, 1);
    if (bytes.start == 0 || read<uint8_t>(bytes.start + bytes.length) != 0) {
      damaged_ = true;
      return {};
    }
    return {reinterpret_cast<const char*>(data_ + bytes.start), bytes.length};
  }

  template <class T>
  T read(uint64_t position) {
    T value{};
    if (inside(position, sizeof(T))) {
      memcpy(&value, data_ + position, sizeof(T));
    }
    return value;
  }

 private:
  void count(uint64_t bytes) {
    visited_ += bytes;
    damaged_ = damaged_ || visited_ > 2 * size_;
  }

  bool inside(uint64_t position, uint64_t length) {
    const bool is_inside = position <= size_ && length <= size_ - position;
    damaged_ = damaged_ || !is_inside;
    return is_inside;
  }

  const uint8_t* data_;
  uint64_t size_;
  uint64_t visited_ = 0;  // Bytes of all vectors, and tables in them, so far.
  bool damaged_ = false;
};

}  // namespace runner
