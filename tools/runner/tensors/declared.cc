#include "tools/runner/tensors/declared.h"

#include <cstring>
#include <map>
#include <string_view>

namespace runner {
namespace {

// A dimension of an input, or the value of a whole number.
struct Place {
  const GivenInput& given;
  const DeclaredInput& input;
  size_t dimension;
  bool is_value;
};

// The value of a symbol, and the place that it comes from.
struct Known {
  int64_t value;
  Place place;
};

using Symbols = std::map<std::string_view, Known>;

// For errors.
std::string where(const Place& place, const std::string& title) {
  return place.given.name + " (\"" + place.input.name + "\") for " + title +
      (place.is_value ? ": its value" : ": dimension " + std::to_string(place.dimension));
}

std::string range_of(const DeclaredSize& size) {
  const std::string low = std::to_string(size.min);
  if (size.min == size.max) {
    return low;
  }
  const std::string from = size.max == INT64_MAX ? "at least " + low : "from " + low + " to " + std::to_string(size.max);
  if (size.times == 1) {
    return from;
  }
  return "a multiple of " + std::to_string(size.times) +
      (size.plus == 0 ? ", " : " plus " + std::to_string(size.plus) + ", ") + from;
}

Status check_size(int64_t got, const Place& place, const std::string& title, Symbols& symbols) {
  const DeclaredSize& size = place.input.sizes[place.dimension];
  if (got < size.min || got > size.max || (got - size.plus) % size.times != 0) {
    return error(where(place, title) + " is " + std::to_string(got) + ", expected " + range_of(size) + ".");
  }
  if (size.symbol.empty()) {
    return {};
  }
  const int64_t value = (got - size.plus) / size.times;
  const auto [known, is_new] = symbols.emplace(size.symbol, Known{value, place});
  if (is_new || known->second.value == value) {
    return {};
  }
  int64_t expected;
  const bool is_known = !__builtin_mul_overflow(size.times, known->second.value, &expected) &&
      !__builtin_add_overflow(expected, size.plus, &expected);
  return error(
      where(place, title) + " is " + std::to_string(got) + ", expected " +
      (is_known ? std::to_string(expected) : "another size") + ": it goes with " +
      where(known->second.place, title) + ".");
}

}  // namespace

Status check_declared(
    const std::string& title,
    const std::vector<DeclaredInput>& declared,
    const std::vector<GivenInput>& given) {
  Symbols symbols;
  for (const DeclaredInput& input : declared) {
    if (input.input >= given.size()) {
      continue;
    }
    const GivenInput& one = given[input.input];
    if (one.array.shape.size() == input.sizes.size()) {
      for (size_t d = 0; d < input.sizes.size(); ++d) {
        TRY(check_size(one.array.shape[d], {one, input, d, false}, title, symbols));
      }
    } else if (input.sizes.size() == 1 && one.array.size == sizeof(int64_t)) {
      int64_t value;
      memcpy(&value, one.array.data, sizeof(value));
      TRY(check_size(value, {one, input, 0, true}, title, symbols));
    }
  }
  return {};
}

}  // namespace runner
