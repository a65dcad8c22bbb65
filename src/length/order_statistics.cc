#include "length/order_statistics.h"

#include <algorithm>

namespace tailrace::length {

double quantile_of_sorted(std::span<const double> ascending, double p) {
  const double rank = p * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  const double part = rank - static_cast<double>(below);
  return ascending[below] + part * (ascending[above] - ascending[below]);
}

double sum_of_top_tenth(std::span<const double> ascending) {
  const std::size_t n = ascending.size();
  const std::size_t full = n / 10;
  double sum = static_cast<double>(n % 10) / 10 * ascending[n - 1 - full];
  for (std::size_t i = n - full; i < n; ++i) sum += ascending[i];
  return sum;
}

}  // namespace tailrace::length
