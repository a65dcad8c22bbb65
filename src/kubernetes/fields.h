// How are the fields of an object of the API read?
//
// Small helpers over simdjson's DOM: what is not there, null or of another type is nothing. Of keys
// that stand twice the last counts. Include in .cc files only.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "tailrace/core/result.h"

namespace tailrace::kubernetes::fields {

using Element = simdjson::dom::element;
using Array = simdjson::dom::array;
using Path = std::initializer_list<std::string_view>;

/// A parser that keeps its buffers for the next document.
class Parser {
 public:
  Parser();
  /// The root, valid until the next call. Errors: kDataLoss.
  Result<Element> parse(std::string_view text);

 private:
  simdjson::dom::parser parser_;
};

std::optional<Element> at(Element root, Path path);
std::optional<Array> list_at(Element root, Path path);
/// The text, or "".
std::string text_at(Element root, Path path);
std::optional<std::int64_t> whole_at(Element root, Path path);
bool true_at(Element root, Path path);
/// A mapping from keys to texts; members of other types are left out.
std::map<std::string, std::string> texts_at(Element root, Path path);
std::map<std::string, std::string> texts_of(const simdjson::dom::object& object);

}  // namespace tailrace::kubernetes::fields
