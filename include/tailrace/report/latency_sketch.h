// What are the percentiles of millions of gaps, in bounded memory?
//
// Buckets grow by 2 %, so a percentile is within 1 % of the true one; the mean is exact. Covers one
// microsecond to a day; what lies outside counts at the border.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "tailrace/report/summary.h"

namespace tailrace::report {

class LatencySketch {
 public:
  void add(double seconds);
  std::uint64_t count() const { return count_; }
  /// Nothing if nothing was added.
  std::optional<Summary> summary() const;
  /// 0 ≤ p ≤ 1, of what was added; 0 if nothing was.
  double quantile(double p) const;
  void merge(const LatencySketch& other);

 private:
  static constexpr double kLowest = 1e-6;
  static constexpr std::size_t kBuckets = 1300;

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  double sum_ = 0;
  double max_ = 0;
};

}  // namespace tailrace::report
