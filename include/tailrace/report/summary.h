// What do a thousand measurements say in a few numbers, and how sure is a comparison of two runs?
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tailrace/core/rng.h"

namespace tailrace::report {

struct Summary {
  std::size_t count = 0;
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
};

/// Nothing if `values` is empty. Values must be finite.
std::optional<Summary> summarise(std::vector<double> values);

/// Linear interpolation between order statistics (type 7). `sorted` ascending and not empty, 0 ≤ p
/// ≤ 1.
double percentile(std::span<const double> sorted, double p);

/// An estimate with the interval that holds it at a confidence level.
struct Interval {
  double low = 0;
  double estimate = 0;
  double high = 0;
};

/// mean(a) / mean(b) of the same requests measured twice: pairs are resampled together, so what
/// differs between requests cancels out. Percentile bootstrap; same `rng`, same interval. Nothing
/// if the sizes differ, fewer than two pairs are given, or mean(b) is not positive.
std::optional<Interval> paired_ratio_of_means(std::span<const double> a, std::span<const double> b,
                                              double level, int resamples, Rng rng);

}  // namespace tailrace::report
