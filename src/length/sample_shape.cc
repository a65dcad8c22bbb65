#include <algorithm>
#include <cmath>

#include "length/order_statistics.h"
#include "tailrace/length/goodness.h"

namespace tailrace::length {
namespace {

constexpr std::size_t kLeastTail = 5;  // values behind a tail index

/// Hill's estimator over the largest tenth. A censored value adds its distance but counts for no
/// ending, as in any exponential sample (ln X beyond a high threshold is one).
std::optional<double> hill_index(const std::vector<double>& ascending, std::optional<double> cap) {
  const std::size_t n = ascending.size();
  const std::size_t tail = n / 10;
  if (tail < kLeastTail) return std::nullopt;
  const double threshold = ascending[n - tail - 1];
  double distance = 0;
  std::size_t ended = 0;
  for (std::size_t i = n - tail; i < n; ++i) {
    distance += std::log(ascending[i] / threshold);
    if (!cap || ascending[i] < *cap) ++ended;
  }
  if (!(distance > 0) || ended == 0) return std::nullopt;
  return static_cast<double>(ended) / distance;
}

}  // namespace

SampleShape describe_sample(const LengthSample& sample) {
  SampleShape shape;
  std::vector<double> lengths = sample.lengths;
  if (lengths.empty()) return shape;
  std::sort(lengths.begin(), lengths.end());
  shape.n = lengths.size();
  const auto n = static_cast<double>(shape.n);
  double sum = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    sum += lengths[i];
    if (i == 0 || lengths[i] != lengths[i - 1]) ++shape.distinct;
    if (sample.cap && lengths[i] >= *sample.cap) ++shape.n_capped;
  }
  shape.mean = sum / n;
  if (shape.distinct > 1) {
    double second = 0, third = 0;
    for (const double length : lengths) {
      const double off = length / shape.mean - 1;  // relative: powers of it cannot overflow
      second += off * off / n;
      third += off * off * off / n;
    }
    shape.cv = std::sqrt(second);
    shape.skewness = third / (second * shape.cv);
  }
  shape.p50 = quantile_of_sorted(lengths, 0.5);
  shape.p90 = quantile_of_sorted(lengths, 0.9);
  shape.p99 = quantile_of_sorted(lengths, 0.99);
  shape.top_tenth_share = sum_of_top_tenth(lengths) / sum;
  shape.tail_index = hill_index(lengths, sample.cap);
  return shape;
}

}  // namespace tailrace::length
