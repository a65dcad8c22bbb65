#include "tailrace/capacity/histogram_moment.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tailrace/length/length_law.h"

namespace tailrace::capacity {
namespace {

constexpr int kCells = 32;  // per bucket
constexpr int kSearchSteps = 40;
/// Of the law that lengths follow (length/length_law.h).
constexpr double kNu = 3.5;
/// An open bucket reaches this far beyond its edge where nothing bounds it: as the edges rise.
constexpr double kOpenFactor = 2.5;
constexpr double kTokensMax = 1e9;

struct Bucket {
  double low = 0, high = 0;     // tokens
  double below = 0, above = 0;  // share of lengths up to low, up to high
};

/// The log-t law with these shares at these lengths; nothing where there is none.
std::optional<length::LengthLaw> law_through(const Bucket& b) {
  if (!(b.low > 0) || !(b.below > 0) || !(b.above < 1)) return std::nullopt;
  static const auto kStandard = length::LengthLaw::log_t(0, 1, kNu);
  const double from = std::log(kStandard->quantile(b.below));
  const double to = std::log(kStandard->quantile(b.above));
  const double sigma = std::log(b.high / b.low) / (to - from);
  if (!std::isfinite(sigma)) return std::nullopt;
  auto law = length::LengthLaw::log_t(std::log(b.low) - sigma * from, sigma, kNu);
  if (!law) return std::nullopt;
  return std::move(*law);
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
      if (longest && *longest > edge && std::isfinite(*longest)) {
        bucket.high = std::isfinite(b.upper) ? std::min(bucket.high, *longest) : *longest;
      }
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

void add(LengthMoments& sum, double share, double x) {
  sum.mean += share * x;
  sum.second += share * x * x;
}

/// The lengths of a bucket as `law` spreads them, or evenly by their logarithm. What the law would
/// put beyond an edge stands at the edge.
void add(LengthMoments& sum, const Bucket& b, const std::optional<length::LengthLaw>& law) {
  const double low = std::max(b.low, std::min(1.0, b.high / 2));  // a length is 1 or more
  const double step = std::log(b.high / low) / kCells;
  double before = b.below;
  for (int i = 0; i < kCells; ++i) {
    const double even = b.below + (b.above - b.below) * (i + 1) / kCells;
    const double after =
        std::clamp(law ? law->cdf(low * std::exp(step * (i + 1))) : even, before, b.above);
    add(sum, after - before, low * std::exp(step * (i + 0.5)));
    before = after;
  }
  add(sum, b.above - before, b.high);
}

/// All but the last bucket, and the law that goes on into the last.
struct Body {
  LengthMoments moments;
  std::optional<length::LengthLaw> law;
};

Body body_of(const std::vector<Bucket>& buckets) {
  Body body;
  for (std::size_t i = 0; i + 1 < buckets.size(); ++i) {
    auto law = law_through(buckets[i]);
    // The first bucket has no lower point: the law of the next one comes down into it.
    if (!law && i + 2 < buckets.size()) law = law_through(buckets[i + 1]);
    add(body.moments, buckets[i], law);
    body.law = std::move(law);
  }
  return body;
}

/// Answers that a limit cut stand at one length of the last bucket: where it is, the mean says.
LengthMoments with_last(const Body& body, Bucket last, std::optional<double> mean) {
  const auto cut_at = [&](double high) {
    auto sum = body.moments;
    Bucket cut = last;
    cut.high = high;
    add(sum, cut, body.law);
    return sum;
  };
  auto out = cut_at(last.high);
  if (!mean || !(out.mean > *mean)) return out;
  double low = std::max(last.low, std::min(1.0, last.high / 2)), high = last.high;
  for (int step = 0; step < kSearchSteps; ++step) {
    const double middle = std::sqrt(low * high);
    (cut_at(middle).mean > *mean ? high : low) = middle;
  }
  return cut_at(high);
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
  if (mean && !(*mean > 0 && *mean <= kTokensMax)) mean.reset();
  auto out = with_last(body_of(all), all.back(), mean);
  if (mean) {
    const double factor = *mean / out.mean;
    out = {*mean, out.second * factor * factor};
  }
  out.second = std::max(out.second, out.mean * out.mean);
  return out;
}

}  // namespace tailrace::capacity
