// How does a number stand in a saved state, so that reading and saving it again gives the same
// bytes?
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <string>
#include <vector>

namespace tailrace::tune {

/// "-0" comes back from JSON as the whole number 0, so it is written as 0.
inline double json_number(double value) {
  return value == 0 ? 0 : value;
}

inline std::string json_list(std::span<const double> numbers) {
  std::vector<double> written(numbers.begin(), numbers.end());
  for (double& number : written) number = json_number(number);
  return fmt::format("[{}]", fmt::join(written, ","));
}

}  // namespace tailrace::tune
