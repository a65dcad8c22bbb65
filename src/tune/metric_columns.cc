#include "tailrace/tune/metric_columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tailrace/core/text.h"
#include "tailrace/core/words.h"

namespace tailrace::tune {
namespace {

tl::unexpected<Error> bad(std::string message) {
  return fail(ErrorCode::kInvalidArgument, "header: " + std::move(message));
}

std::string unknown_column(std::string_view name, std::span<const std::string_view> known) {
  if (const auto meant = core::nearest_word(name, {known.begin(), known.end()})) {
    return fmt::format("there is no column {}; did you mean {}?", core::quoted(name), *meant);
  }
  return fmt::format("there is no column {}; remove it, the known ones are {}", core::quoted(name),
                     fmt::join(known, ", "));
}

}  // namespace

Result<std::vector<std::size_t>> places_of_columns(std::span<const std::string> header,
                                                   std::span<const std::string_view> known,
                                                   std::size_t required) {
  std::vector<std::size_t> places;
  std::vector<bool> seen(known.size());
  for (const std::string& cell : header) {
    const std::string_view name = core::trim(cell);
    const auto at = std::find(known.begin(), known.end(), name);
    if (at == known.end()) return bad(unknown_column(name, known));
    const auto place = static_cast<std::size_t>(at - known.begin());
    if (seen[place]) return bad(fmt::format("{} is there twice; keep one", name));
    seen[place] = true;
    places.push_back(place);
  }
  for (std::size_t place = 0; place < required; ++place) {
    if (seen[place]) continue;
    return bad(fmt::format("the column {} is missing; give {}, and if known {}", known[place],
                           fmt::join(known.first(required), ", "),
                           fmt::join(known.subspan(required), ", ")));
  }
  return places;
}

bool is_missing(std::string_view cell) {
  return cell.empty() || core::iequals(cell, "nan");
}

std::optional<double> number_in(std::string_view cell) {
  if (cell.starts_with('+')) cell.remove_prefix(1);  // +Inf, as exporters write it
  const bool negative = cell.starts_with('-');
  const std::string_view size = negative ? cell.substr(1) : cell;
  if (core::iequals(size, "inf") || core::iequals(size, "infinity")) {
    return negative ? -HUGE_VAL : HUGE_VAL;
  }
  return core::parse_double(cell);
}

}  // namespace tailrace::tune
