// Is this document what an estimator of that name and version has saved?
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tailrace/core/result.h"

namespace tailrace::tune {

/// "saved kalman state: what; start without it".
tl::unexpected<Error> damaged_state(std::string_view estimator, std::string_view what);

/// The document's object, which lives as long as `parser`. Errors: kDataLoss for what is longer
/// than `bytes_max` or no object with an estimator and a version; kUnsupported for another
/// estimator's or another version's.
Result<simdjson::dom::object> open_state(simdjson::dom::parser& parser, std::string_view document,
                                         std::string_view estimator, std::int64_t version,
                                         std::size_t bytes_max);

}  // namespace tailrace::tune
