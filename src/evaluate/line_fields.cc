#include "evaluate/line_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "tailrace/core/text.h"

namespace tailrace::evaluate {
namespace {

tl::unexpected<Error> wrong(std::string_view field, simdjson::dom::element found,
                            std::string_view remedy) {
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("{} is {}; give {}", field, core::quoted(simdjson::minify(found)), remedy));
}

tl::unexpected<Error> missing(std::string_view field, std::string_view remedy) {
  return fail(ErrorCode::kInvalidArgument, fmt::format("{} is missing; give {}", field, remedy));
}

std::string whole_remedy(std::int64_t low, std::int64_t high) {
  return fmt::format("a whole number from {} to {}", low, high);
}

constexpr std::string_view kTextRemedy = "a text in quotes";

}  // namespace

std::optional<simdjson::dom::element> LineFields::find(std::string_view field) const {
  simdjson::dom::element value;
  if (object_.at_key(field).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

bool LineFields::has(std::string_view field) const {
  return find(field).has_value();
}

std::optional<std::string_view> LineFields::first_outside(
    std::span<const std::string_view> known) const {
  for (const auto field : object_) {
    if (std::find(known.begin(), known.end(), field.key) == known.end()) return field.key;
  }
  return std::nullopt;
}

Result<std::optional<std::string_view>> LineFields::text(std::string_view field) const {
  const auto value = find(field);
  if (!value) return std::nullopt;
  std::string_view text;
  if (value->get(text) != simdjson::SUCCESS) return wrong(field, *value, kTextRemedy);
  return text;
}

Result<std::int64_t> whole_element(std::string_view field, simdjson::dom::element element,
                                   std::int64_t low, std::int64_t high) {
  std::int64_t number = 0;
  if (element.get(number) != simdjson::SUCCESS || number < low || number > high) {
    return wrong(field, element, whole_remedy(low, high));
  }
  return number;
}

Result<std::optional<std::int64_t>> LineFields::whole(std::string_view field, std::int64_t low,
                                                      std::int64_t high) const {
  const auto value = find(field);
  if (!value) return std::nullopt;
  const auto number = whole_element(field, *value, low, high);
  if (!number) return fail(number.error());
  return *number;
}

Result<std::optional<double>> LineFields::real(std::string_view field, double low,
                                               double high) const {
  const auto value = find(field);
  if (!value) return std::nullopt;
  double number = 0;
  if (value->get(number) != simdjson::SUCCESS || !(number >= low && number <= high)) {
    return wrong(field, *value, fmt::format("a number from {} to {}", low, high));
  }
  return number;
}

Result<std::optional<bool>> LineFields::flag(std::string_view field) const {
  const auto value = find(field);
  if (!value) return std::nullopt;
  bool flag = false;
  if (value->get(flag) != simdjson::SUCCESS) return wrong(field, *value, "true or false");
  return flag;
}

Result<std::optional<simdjson::dom::array>> LineFields::array(std::string_view field) const {
  const auto value = find(field);
  if (!value) return std::nullopt;
  simdjson::dom::array array;
  if (value->get(array) != simdjson::SUCCESS) return wrong(field, *value, "a list in brackets");
  return array;
}

Result<std::optional<simdjson::dom::object>> LineFields::object(std::string_view field) const {
  const auto value = find(field);
  if (!value) return std::nullopt;
  simdjson::dom::object object;
  if (value->get(object) != simdjson::SUCCESS) return wrong(field, *value, "an object in braces");
  return object;
}

Result<std::string_view> LineFields::required_text(std::string_view field) const {
  const auto value = text(field);
  if (!value) return fail(value.error());
  if (!*value) return missing(field, kTextRemedy);
  return **value;
}

Result<std::int64_t> LineFields::required_whole(std::string_view field, std::int64_t low,
                                                std::int64_t high) const {
  const auto value = whole(field, low, high);
  if (!value) return fail(value.error());
  if (!*value) return missing(field, whole_remedy(low, high));
  return **value;
}

}  // namespace tailrace::evaluate
