// Which moment does a written date and time mean?
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tailrace::dataset {

/// "2023-11-16 18:15:46.6805900" or "2024-05-10T00:00:00.009930+00:00": nanoseconds since 1970 in
/// UTC, where no zone is written too. Up to nine digits of a second; years 1970 to 2200. Nothing
/// for anything else, 30 February included.
std::optional<std::int64_t> parse_date_time(std::string_view text);

}  // namespace tailrace::dataset
