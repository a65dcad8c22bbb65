// How do the gateway's readers look into a JSON document?
//
// Small helpers over simdjson's DOM. Keys that stand twice: the last counts. Include in .cc files
// only.
#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>

#include "tailrace/core/result.h"

namespace tailrace::gateway::json {

using Element = simdjson::dom::element;
using Object = simdjson::dom::object;
using Array = simdjson::dom::array;

/// A parser that keeps its buffers for the next document. Depth is limited, and numbers that no
/// double holds are read as the nearest that it does.
class Reader {
 public:
  explicit Reader(std::size_t depth_max);
  /// The root, valid until the next call. Errors: kInvalidArgument in words for the client.
  Result<Element> parse(std::string_view text);

 private:
  simdjson::dom::parser parser_;
  std::size_t depth_max_;
};

/// The member's value, if the object has it and it is not null. Keys are compared unescaped.
inline bool find(const Object& object, std::string_view key, Element& value) {
  bool found = false;
  for (const auto field : object) {
    if (field.key == key) {
      value = field.value;
      found = !value.is_null();
    }
  }
  return found;
}

inline bool find_object(const Object& object, std::string_view key, Object& value) {
  Element element;
  return find(object, key, element) && element.get(value) == simdjson::SUCCESS;
}
inline bool find_array(const Object& object, std::string_view key, Array& value) {
  Element element;
  return find(object, key, element) && element.get(value) == simdjson::SUCCESS;
}
inline bool find_string(const Object& object, std::string_view key, std::string_view& value) {
  Element element;
  return find(object, key, element) && element.get(value) == simdjson::SUCCESS;
}

/// A number of any kind as a whole one, clipped to [low, high]; NaN cannot occur in JSON.
inline bool as_clipped(const Element& element, std::int64_t low, std::int64_t high,
                       std::int64_t& value) {
  if (element.is_int64()) {
    const std::int64_t exact = element.get_int64().value_unsafe();
    value = exact < low ? low : exact > high ? high : exact;
    return true;
  }
  if (element.is_uint64()) {  // above 2^63
    value = high;
    return true;
  }
  if (element.is_double()) {
    const double real = element.get_double().value_unsafe();
    value = real <= static_cast<double>(low)    ? low
            : real >= static_cast<double>(high) ? high
                                                : static_cast<std::int64_t>(real);
    return true;
  }
  return false;
}
inline bool find_clipped(const Object& object, std::string_view key, std::int64_t low,
                         std::int64_t high, std::int64_t& value) {
  Element element;
  return find(object, key, element) && as_clipped(element, low, high, value);
}

}  // namespace tailrace::gateway::json
