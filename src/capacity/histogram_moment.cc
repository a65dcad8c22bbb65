#include "tailrace/capacity/histogram_moment.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tailrace::capacity {
namespace {

constexpr int kCells = 64;  // per bucket
constexpr int kBendSteps = 60;
constexpr double kBendMax = 64;
/// An open bucket reaches this far beyond its edge where nothing bounds it: as the edges rise.
constexpr double kOpenFactor = 2.5;
constexpr double kTokensMax = 1e9;

struct Bucket {
  double low = 0, high = 0;  // tokens
  double below = 0, above = 0;  // share of lengths up to low, up to high
  double mass() const { return above - below; }
};

double logit(double p) { return std::log(p / (1 - p)); }

/// The share up to `u` of the way from low to high, by their logarithms.
double share_at(const Bucket& b, double u) {
  // Nothing below, or nothing above: there is no second edge to draw a line to.
  if (b.below <= 0 || b.above >= 1) return b.below + b.mass() * u;
  const double from = logit(b.below), to = logit(b.above);
  return 1 / (1 + std::exp(-(from + (to - from) * u)));
}

/// Buckets that hold something; nothing where the counts contradict each other.
std::vector<Bucket> occupied(std::span<const HistogramBucket> buckets,
                             std::optional<double> longest) {
  std::vector<Bucket> out;
  if (buckets.empty()) return out;
  const double total = buckets.back().cumulative;
  if (!(total > 0) || !std::isfinite(total)) return out;
  double edge = 0, count = 0;
  for (const auto& b : buckets) {
    if (!(b.upper > edge) || !(b.cumulative >= count)) return {};
    if (b.cumulative > count) {
      Bucket bucket;
      bucket.low = edge;
      bucket.high = std::isfinite(b.upper) ? b.upper : std::max(edge, 1.0) * kOpenFactor;
      if (longest && *longest > edge) bucket.high = std::min(bucket.high, *longest);
      if (!std::isfinite(b.upper) && longest && *longest > edge) bucket.high = *longest;
      if (!(bucket.high <= kTokensMax)) return {};
      bucket.below = count / total;
      bucket.above = b.cumulative / total;
      out.push_back(bucket);
    }
    edge = b.upper;
    count = b.cumulative;
  }
  return out;
}

/// `bend` 1 leaves the line as it is; above, lengths lie nearer to the bucket's low edge.
LengthMoments add(LengthMoments sum, const Bucket& b, double bend) {
  const double low = std::max(b.low, std::min(1.0, b.high / 2));  // a length is 1 or more
  double before = b.below;
  for (int i = 0; i < kCells; ++i) {
    const double after = i + 1 == kCells ? b.above : share_at(b, (i + 1.0) / kCells);
    const double u = std::pow((i + 0.5) / kCells, bend);
    const double x = low * std::pow(b.high / low, u);
    sum.mean += (after - before) * x;
    sum.second += (after - before) * x * x;
    before = after;
  }
  return sum;
}

LengthMoments sum_of(const std::vector<Bucket>& buckets, double bend, double last_bend) {
  LengthMoments sum;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    sum = add(sum, buckets[i], i + 1 == buckets.size() ? last_bend : bend);
  }
  return sum;
}

/// The bend, by bisection on its logarithm, at which `moments(bend).mean` comes nearest to `mean`;
/// it falls as the bend rises.
template <class Moments>
double bend_for(const Moments& moments, double mean) {
  double low = -std::log(kBendMax), high = std::log(kBendMax);
  for (int step = 0; step < kBendSteps; ++step) {
    const double middle = (low + high) / 2;
    (moments(std::exp(middle)).mean > mean ? low : high) = middle;
  }
  return std::exp((low + high) / 2);
}

}  // namespace

double LengthMoments::cv() const {
  const double variance = second - mean * mean;
  return mean > 0 && variance > 0 ? std::sqrt(variance) / mean : 0;
}

std::optional<LengthMoments> moments_from_histogram(std::span<const HistogramBucket> buckets,
                                                    std::optional<double> mean,
                                                    std::optional<double> longest) {
  const auto all = occupied(buckets, longest);
  if (all.empty()) return std::nullopt;
  auto out = sum_of(all, 1, 1);
  if (mean && *mean > 0 && std::isfinite(*mean)) {
    // Limits cut answers, so the last bucket may hold them all at one length: it is bent first.
    const auto last_only = [&](double bend) { return sum_of(all, 1, bend); };
    const double last = bend_for(last_only, *mean);
    out = last_only(last);
    if (std::abs(out.mean - *mean) > 1e-6 * *mean) {
      const auto every = [&](double bend) { return sum_of(all, bend, last); };
      out = every(bend_for(every, *mean));
    }
  }
  out.second = std::max(out.second, out.mean * out.mean);
  return out;
}

}  // namespace tailrace::capacity
