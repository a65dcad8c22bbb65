#include "queueing/rate_search.h"

#include <algorithm>
#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

#include "queueing/falling_root.h"

namespace tailrace::queueing {
namespace {

constexpr double kRelativeTolerance = 1e-10;
/// Over brackets that are so short, as a share of the rate, latencies' reciprocals are straight.
constexpr double kStraight = 1e-5;
/// Of the target, and of the rate: percentiles are no better known than that.
constexpr double kPercentileTolerance = 4e-3;
/// Of the target, where the rate is known to that.
constexpr double kNearlyMet = 1e-2;
constexpr int kPercentileStepsMax = 60;
/// Where two steps leave more than this of what the logarithm is off by, the next ones halve the
/// bracket.
constexpr double kProgress = 0.4;
constexpr int kSlowStepsMax = 2, kHalvings = 3;
constexpr double kFar = 1e3;
/// Of a root search in a published mode: TOMS 748 takes about ten, and never more than bisection
/// three times over.
constexpr std::uintmax_t kStepsMax = 200;
/// Of the largest rate: below it the search needs no relative precision.
constexpr double kLeastShare = 1e-6;
/// Below the largest rate, where every latency would be infinite.
constexpr double kBelowMost = 1 - 1e-9;

double pick(const std::optional<double>& mean, const std::optional<Percentiles>& p,
            Statistic statistic) {
  if (statistic == Statistic::kMean) return mean.value_or(HUGE_VAL);
  if (!p) return HUGE_VAL;
  switch (statistic) {
    case Statistic::kP50:
      return p->p50;
    case Statistic::kP90:
      return p->p90;
    case Statistic::kP95:
      return p->p95;
    default:
      return p->p99;
  }
}

/// The last rate from `good` on at which `headroom`, which falls and is below 0 at `bad`, is not.
template <typename Headroom>
double bracketed_root(const Headroom& headroom, double good, double bad, double tolerance,
                      double least) {
  const auto close = [&](double a, double b) { return b - a <= tolerance * std::max(a, least); };
  const double at_good = headroom(good), at_bad = headroom(bad);
  // At the end of what doubles hold a latency may be no number, and then there is no bracket.
  if (!(good < bad)) return std::min(good, bad);
  if (close(good, bad) || !(at_good > 0) || !(at_bad < 0)) return good;
  const auto solve = [&](double low, double high, double at_low, double at_high, double within) {
    const auto short_enough = [&](double a, double b) {
      return b - a <= within * std::max(a, least);
    };
    std::uintmax_t steps = kStepsMax;
    return boost::math::tools::toms748_solve(headroom, low, high, at_low, at_high, short_enough,
                                             steps);
  };
  const auto [a, b] = solve(good, bad, at_good, at_bad, std::max(tolerance, kStraight));
  if (close(a, b)) return a;
  // In a bracket so short a line leads to the root, unless there is a bend.
  const double at_a = headroom(a), at_b = headroom(b);
  const double slope = (at_a - at_b) / (b - a), step = tolerance * std::max(a, least);
  const double x = a + at_a / slope - step;
  if (!(x > a && x < b)) return solve(a, b, at_a, at_b, tolerance).first;
  const double at_x = headroom(x);
  if (at_x >= 0 && at_x <= 4 * slope * step) return x;
  return at_x >= 0 ? solve(x, b, at_x, at_b, tolerance).first
                   : solve(a, x, at_a, at_x, tolerance).first;
}

constexpr WhichPercentiles kNoPercentile{.p50 = false, .p90 = false, .p95 = false, .p99 = false};

void want(WhichPercentiles& which, Statistic statistic) {
  which.p50 = which.p50 || statistic == Statistic::kP50;
  which.p90 = which.p90 || statistic == Statistic::kP90;
  which.p95 = which.p95 || statistic == Statistic::kP95;
  which.p99 = which.p99 || statistic == Statistic::kP99;
}

}  // namespace

double value_of(const Latency& at, SizingLimit limit, Statistic statistic) {
  switch (limit) {
    case SizingLimit::kTtft:
      return pick(at.ttft_ms, at.ttft_percentiles_ms, statistic);
    case SizingLimit::kItl:
      return pick(at.itl_ms, at.itl_percentiles_ms, statistic);
    default:
      return pick(at.e2e_ms, at.e2e_percentiles_ms, statistic);
  }
}

RateSearch::RateSearch(const ServiceModel& model, const Workload& workload,
                       const std::vector<Target>& targets)
    : model_(model), workload_(workload), first_(kNoPercentile), gaps_(kNoPercentile) {
  for (const Target& target : targets) {
    if (target.statistic == Statistic::kMean) continue;
    detail_ = Detail::kPercentiles;
    want(target.limit == SizingLimit::kItl ? gaps_ : first_, target.statistic);
  }
  first_.gaps = gaps_.first = false;
  workload_.rate_per_s = 0;
  if (model_.mode == Mode::kCorrected) {
    corrected_.emplace(model_, workload_);
    high_ = kBelowMost * std::min(kRateMax, corrected_->max_rate_per_s());
    return;
  }
  const double most =
      std::min(kRateMax, latency_unchecked(model_, workload_, Detail::kMeans).max_rate_per_s);
  high_ = most * kBelowMost;
  if (model_.mode == Mode::kChain) {
    // Its authors search this range, ends included.
    high_ = most;
    low_ = std::min(high_, chain_least_rate(model_.iteration, workload_));
  }
}

Latency RateSearch::ask(double rate, Detail detail, const WhichPercentiles& which) {
  if (corrected_) return corrected_->at(rate, detail, which);
  workload_.rate_per_s = rate;
  return latency_unchecked(model_, workload_, detail);
}

Latency RateSearch::at(double rate) {
  const auto point = std::find_if(points_.begin(), points_.end(),
                                  [&](const Point& one) { return one.rate == rate; });
  if (detail_ == Detail::kMeans && point != points_.end()) return point->latency;
  const Latency latency = ask(rate, detail_, {});
  if (point == points_.end()) {
    points_.push_back({rate, latency});
  } else {
    point->latency = latency;
  }
  return latency;
}

double RateSearch::value(double rate, const Target& target) {
  const auto point = std::find_if(points_.begin(), points_.end(),
                                  [&](const Point& one) { return one.rate == rate; });
  if (point != points_.end() && knows(point->latency, target)) {
    return value_of(point->latency, target.limit, target.statistic);
  }
  const WhichPercentiles& which = target.limit == SizingLimit::kItl ? gaps_ : first_;
  const bool means = target.statistic == Statistic::kMean;
  const Latency latency = ask(rate, means ? Detail::kMeans : Detail::kPercentiles, which);
  if (point == points_.end()) {
    points_.push_back({rate, latency});
  } else if (which.gaps) {
    point->latency.itl_percentiles_ms = latency.itl_percentiles_ms;
  } else {
    point->latency.ttft_percentiles_ms = latency.ttft_percentiles_ms;
    point->latency.e2e_percentiles_ms = latency.e2e_percentiles_ms;
  }
  return value_of(latency, target.limit, target.statistic);
}

double RateSearch::mean(double rate, const Target& target) {
  return value(rate, {target.limit, target.ms});
}

bool RateSearch::knows(const Latency& at, const Target& target) {
  if (target.statistic == Statistic::kMean) return true;
  return target.limit == SizingLimit::kItl ? at.itl_percentiles_ms.has_value()
                                           : at.ttft_percentiles_ms.has_value();
}

std::optional<double> RateSearch::largest(const Target& target) {
  if (model_.mode == Mode::kClosedForm) {
    const auto rate = closed_form_rate(model_.iteration, workload_, target.limit, target.ms);
    return rate ? std::optional(std::min(*rate, high_)) : std::nullopt;
  }
  if (!(value(low_, target) <= target.ms)) return std::nullopt;
  // No percentile is so far below the mean, and that is cheap to know.
  const bool far = target.statistic != Statistic::kMean && mean(high_, target) > kFar * target.ms;
  if (!far && value(high_, target) <= target.ms) return high_;
  return largest_below(high_, target);
}

double RateSearch::largest_below(double missed, const Target& target) {
  double good = low_, bad = missed;
  for (const Point& point : points_) {
    if (point.rate >= missed || !knows(point.latency, target)) continue;
    if (value_of(point.latency, target.limit, target.statistic) <= target.ms) {
      good = std::max(good, point.rate);
    } else {
      bad = std::min(bad, point.rate);
    }
  }
  // Points may contradict each other where latencies do not quite grow with the rate.
  if (good >= bad) return good;
  if (!corrected_) return published_root(target, good, bad);
  const bool gaps = target.limit == SizingLimit::kItl;
  return target.statistic == Statistic::kMean || gaps ? root(target, good, bad)
                                                      : first_token_root(target, good, bad);
}

/// Latency grows like 1 / (1 − load), so its reciprocal is close to a straight line.
double RateSearch::headroom(double rate, const Target& target) {
  return std::min(1e9, target.ms / value(rate, target)) - 1;
}

double RateSearch::published_root(const Target& target, double good, double bad) {
  return bracketed_root([&](double rate) { return headroom(rate, target); }, good, bad,
                        kRelativeTolerance, kLeastShare * high_);
}

double RateSearch::root(const Target& target, double good, double bad) {
  const auto sample = [&](double rate) { return Sample{rate, headroom(rate, target)}; };
  const Sample at_good = sample(good), at_bad = sample(bad);
  if (!(at_good.value > 0) || !(at_bad.value < 0)) return good;
  NearestSamples known;
  known.add(at_good);
  known.add(at_bad);
  for (const Point& point : points_) {
    if (knows(point.latency, target)) known.add(sample(point.rate));
  }
  return falling_root(
      [&](double rate) { return headroom(rate, target); }, at_good, at_bad, known,
      target.statistic == Statistic::kMean ? kRelativeTolerance : kPercentileTolerance,
      kLeastShare * high_);
}

// A percentile of TTFT costs as much as dozens of means, and its ratio to the mean changes slowly:
// solved for the mean times that ratio, which two points near the root foretell, few are needed.
double RateSearch::first_token_root(const Target& target, double good, double bad) {
  const double least = kLeastShare * high_;
  const auto off = [&](double rate) {
    return Sample{rate, std::log(target.ms / value(rate, target))};
  };
  NearestSamples known;
  for (const Point& point : points_) {
    if (knows(point.latency, target)) known.add(off(point.rate));
  }
  double last = HUGE_VAL, left = std::abs(known.first().value);
  int slow = 0;
  for (int step = 0; step < kPercentileStepsMax; ++step) {
    const double enough = kPercentileTolerance * std::max(good, least);
    if (bad - good <= enough) break;
    const auto log_ratio = [&](double rate) {
      return std::log(value(rate, target) / mean(rate, target));
    };
    const double a = known.first().at, b = known.second().at;
    const double at_a = log_ratio(a);
    double slope = std::isfinite(b) ? (at_a - log_ratio(b)) / (a - b) : 0;
    if (!std::isfinite(slope)) slope = 0;
    // Far from the two it would lead anywhere.
    const double reach = std::isfinite(b) ? 3 * std::abs(a - b) : 0;
    const auto foretold = [&](double rate) {
      const double far = std::clamp(rate - a, -reach, reach);
      const double ms = mean(rate, target) * std::exp(at_a + slope * far);
      return Sample{rate, std::min(1e9, target.ms / ms) - 1};
    };
    double next = 0.5 * (good + bad);
    Sample at_good = foretold(good), at_bad = foretold(bad);
    at_good.value = std::max(at_good.value, 0.5 * kPercentileTolerance);
    at_bad.value = std::min(at_bad.value, -0.5 * kPercentileTolerance);
    NearestSamples means;
    means.add(at_good);
    means.add(at_bad);
    for (const Point& point : points_) {
      if (point.rate > good && point.rate < bad) means.add(foretold(point.rate));
    }
    if (slow < kSlowStepsMax) {
      const double root = falling_root([&](double rate) { return foretold(rate).value; }, at_good,
                                       at_bad, means, 0.1 * kPercentileTolerance, least);
      // Close enough in the latency, and as far as this tells in the rate: some hardly grow with
      // it.
      const double left_at_good = off(good).value;
      if (last == good && root - good <= enough && left_at_good <= kNearlyMet) break;
      // Rather below the root than above, by half of what is close enough.
      const double steepness = left_at_good * std::max(root, least) / std::max(root - good, enough);
      const double aim =
          std::max(root * (1 - 0.5 * kPercentileTolerance / std::max(1.0, steepness)),
                   good + 0.5 * (root - good));
      if (aim > good && aim < bad) next = aim;
    }
    last = next;
    const Sample found = off(next);
    (found.value >= 0 ? good : bad) = next;
    slow = std::abs(found.value) > kProgress * left ? slow + 1 : 0;
    if (slow == kSlowStepsMax + kHalvings) slow = 0;
    left = std::min(left, std::abs(found.value));
    known.add(found);
  }
  return good;
}

}  // namespace tailrace::queueing
