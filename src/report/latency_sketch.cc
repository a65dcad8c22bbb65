#include "tailrace/report/latency_sketch.h"

#include <algorithm>
#include <cmath>

namespace tailrace::report {
namespace {

const double kLogGrowth = std::log(1.02);

}  // namespace

void LatencySketch::add(double seconds) {
  const double steps = std::log(std::max(seconds, kLowest) / kLowest) / kLogGrowth;
  const double last = static_cast<double>(kBuckets - 1);
  ++buckets_[static_cast<std::size_t>(std::clamp(std::floor(steps), 0.0, last))];
  ++count_;
  sum_ += seconds;
  max_ = std::max(max_, seconds);
}

void LatencySketch::merge(const LatencySketch& other) {
  for (std::size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

double LatencySketch::quantile(double p) const {
  if (count_ == 0) return 0;
  const double wanted = p * static_cast<double>(count_ - 1);
  double seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += static_cast<double>(buckets_[i]);
    if (seen <= wanted) continue;
    const double middle = kLowest * std::exp((static_cast<double>(i) + 0.5) * kLogGrowth);
    return std::min(i == 0 ? kLowest : middle, max_);
  }
  return max_;
}

std::optional<Summary> LatencySketch::summary() const {
  if (count_ == 0) return std::nullopt;
  return Summary{count_,         sum_ / static_cast<double>(count_),
                 quantile(0.5),  quantile(0.9),
                 quantile(0.99), max_};
}

}  // namespace tailrace::report
