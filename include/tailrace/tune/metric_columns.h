// Which column of a table of metrics is which, and what does a cell say?
//
// Shared by every table that records pods: names are checked once, in the header, and numbers are
// read as exporters write them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/core/result.h"

namespace tailrace::tune {

/// For each cell of a header its place in `known`, whose first `required` must be there. Errors:
/// kInvalidArgument for a name that is unknown (with the one that was meant), there twice, or
/// missing.
Result<std::vector<std::size_t>> places_of_columns(std::span<const std::string> header,
                                                   std::span<const std::string_view> known,
                                                   std::size_t required);

/// Empty, or "nan" in any case: the metric was not there.
bool is_missing(std::string_view cell);

/// A number, "+Inf" and its like included: whether it can teach anything is for others to say.
/// Nothing where the cell holds something else.
std::optional<double> number_in(std::string_view cell);

}  // namespace tailrace::tune
