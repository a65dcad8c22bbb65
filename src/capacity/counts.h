// Counting replicas and GPUs that somebody else wrote down: whatever the numbers, no overflow.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tailrace::capacity {

/// Nobody grows by more than this; also what an unlimited budget holds.
inline constexpr std::int64_t kReplicasMax = 1'000'000'000;
/// Relative: a quotient this close to a whole number is that number, since supply and demand were
/// subtracted in floating point before.
inline constexpr double kCountSlack = 1e-9;

/// a + b with negative ones as 0, at the largest number instead of beyond it.
inline std::int64_t add_counts(std::int64_t a, std::int64_t b) {
  a = std::max<std::int64_t>(a, 0);
  b = std::max<std::int64_t>(b, 0);
  return a > std::numeric_limits<std::int64_t>::max() - b ? std::numeric_limits<std::int64_t>::max()
                                                          : a + b;
}

/// Replicas of `capacity` > 0 that cover `amount`, in [0, kReplicasMax]; NaN covers nothing.
inline std::int64_t count_up(double amount, double capacity) {
  if (!(amount > 0)) return 0;
  const double n = std::ceil(amount / capacity * (1 - kCountSlack));
  if (!(n > 1)) return 1;  // also where the quotient is too small for a number
  return n < double(kReplicasMax) ? static_cast<std::int64_t>(n) : kReplicasMax;
}

/// Replicas of `capacity` > 0 that fit into `amount`, in [0, kReplicasMax]; none into NaN.
inline std::int64_t count_down(double amount, double capacity) {
  const double n = std::floor(amount / capacity * (1 + kCountSlack));
  if (!(n > 0)) return 0;
  return n < double(kReplicasMax) ? static_cast<std::int64_t>(n) : kReplicasMax;
}

/// An amount from an analysis: at least 0, finite; NaN is 0.
inline double finite_amount(double amount) {
  return amount > 0 ? std::min(amount, std::numeric_limits<double>::max()) : 0;
}

}  // namespace tailrace::capacity
