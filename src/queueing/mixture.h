// Which value has a given probability below it, in a mixture of uniform laws?
//
// Fixed memory, no allocation: what does not fit, or weighs nothing, is left out.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "tailrace/queueing/service_model.h"

namespace tailrace::queueing {

/// Those that are wanted; the others stay 0.
struct WhichPercentiles {
  bool p50 = true, p90 = true, p95 = true, p99 = true;
  bool first = true;  ///< of TTFT and the time in the system, which costs most
  bool gaps = true;   ///< of ITL
};

class UniformMixture {
 public:
  static constexpr std::size_t kMost = 12288;

  /// `weight` of the values from `low` to `low + width`.
  void add(double low, double width, double weight);
  std::size_t size() const { return size_; }
  double mean() const { return weight_ > 0 ? sum_ / weight_ : 0; }
  /// Scaled from `floor` on so that its mean is `mean`.
  Percentiles percentiles(double mean, double floor, const WhichPercentiles& which) const;

 private:
  struct Part {
    double low, width, weight;
  };
  /// Values of which all but few may be known: the weight below `low`, and how it grows there.
  struct Range {
    double low, high, below, slope;

    bool has_end_of(const Part& part) const {
      const double end = part.low + part.width;
      return (part.low >= low && part.low < high) || (end >= low && end < high);
    }
  };
  class Cells;

  /// Where `wanted` of the weight is reached, which is within the range.
  double quantile(double wanted, Range range) const;

  std::array<Part, kMost> parts_;
  std::size_t size_ = 0;
  double weight_ = 0, sum_ = 0;
  double least_ = 0, most_ = 0;
};

}  // namespace tailrace::queueing
