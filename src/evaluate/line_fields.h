// What does a field of a line hold, and what is wrong with it?
//
// Each getter gives nothing for a field that is absent or null, and an error that names field,
// value and remedy for one of another kind or out of range.
#pragma once

#include <simdjson.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tailrace/core/result.h"

namespace tailrace::evaluate {

class LineFields {
 public:
  explicit LineFields(simdjson::dom::object object) : object_(object) {}

  bool has(std::string_view field) const;
  /// The first member whose name is none of `known`.
  std::optional<std::string_view> first_outside(std::span<const std::string_view> known) const;
  Result<std::optional<std::string_view>> text(std::string_view field) const;
  Result<std::optional<std::int64_t>> whole(std::string_view field, std::int64_t low,
                                            std::int64_t high) const;
  Result<std::optional<double>> real(std::string_view field, double low, double high) const;
  Result<std::optional<bool>> flag(std::string_view field) const;
  Result<std::optional<simdjson::dom::array>> array(std::string_view field) const;
  Result<std::optional<simdjson::dom::object>> object(std::string_view field) const;

  Result<std::string_view> required_text(std::string_view field) const;
  Result<std::int64_t> required_whole(std::string_view field, std::int64_t low,
                                      std::int64_t high) const;

 private:
  std::optional<simdjson::dom::element> find(std::string_view field) const;
  simdjson::dom::object object_;
};

/// A number of tokens as it stands in a list: whole, within the bounds.
Result<std::int64_t> whole_element(std::string_view field, simdjson::dom::element element,
                                   std::int64_t low, std::int64_t high);

}  // namespace tailrace::evaluate
