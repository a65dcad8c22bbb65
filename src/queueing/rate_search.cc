#include "queueing/rate_search.h"

#include <algorithm>
#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>
#include <cstdint>

#include "queueing/modes.h"

namespace tailrace::queueing {
namespace {

constexpr double kRelativeTolerance = 1e-10;
/// Over brackets that are so short, as a share of the rate, latencies' reciprocals are straight.
constexpr double kStraight = 1e-5;
/// Of the target, and of the rate: percentiles are no better known than that.
constexpr double kPercentileTolerance = 4e-3;
constexpr int kPercentileStepsMax = 60;
constexpr double kFar = 1e3;
/// Of a root search: TOMS 748 takes about ten, and never more than bisection three times over.
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
  if (detail_ == Detail::kPercentiles) {
    means_ = std::make_unique<RateSearch>(model, workload, std::vector<Target>());
  }
  workload_.rate_per_s = 0;
  const double most =
      std::min(kRateMax, latency_unchecked(model_, workload_, Detail::kMeans).max_rate_per_s);
  if (model_.mode == Mode::kChain) {
    // Its authors search this range, ends included.
    high_ = most;
    low_ = std::min(high_, chain_least_rate(model_.iteration, workload_));
  } else {
    high_ = most * kBelowMost;
  }
}

Latency RateSearch::at(double rate) {
  workload_.rate_per_s = rate;
  const Latency latency = latency_unchecked(model_, workload_, detail_);
  const auto point = std::find_if(points_.begin(), points_.end(),
                                  [&](const Point& one) { return one.rate == rate; });
  if (point == points_.end()) {
    points_.push_back({rate, latency});
  } else {
    point->latency = latency;
  }
  return latency;
}

double RateSearch::value(double rate, const Target& target) {
  if (RateSearch* means = means_of(target)) return means->value(rate, target);
  const SizingLimit limit = target.limit;
  const Statistic statistic = means_ ? target.statistic : Statistic::kMean;
  const auto at = std::find_if(points_.begin(), points_.end(),
                               [&](const Point& point) { return point.rate == rate; });
  if (at != points_.end() && knows(at->latency, limit)) {
    return value_of(at->latency, limit, statistic);
  }
  workload_.rate_per_s = rate;
  if (!means_) {
    points_.push_back({rate, latency_unchecked(model_, workload_, detail_)});
    return value_of(points_.back().latency, limit, statistic);
  }
  const WhichPercentiles& which = limit == SizingLimit::kItl ? gaps_ : first_;
  const Latency latency = corrected(model_, workload_, detail_, which);
  if (at == points_.end()) {
    points_.push_back({rate, latency});
  } else if (which.gaps) {
    at->latency.itl_percentiles_ms = latency.itl_percentiles_ms;
  } else {
    at->latency.ttft_percentiles_ms = latency.ttft_percentiles_ms;
    at->latency.e2e_percentiles_ms = latency.e2e_percentiles_ms;
  }
  return value_of(latency, limit, statistic);
}

bool RateSearch::is_known(double rate, SizingLimit limit) const {
  return std::any_of(points_.begin(), points_.end(), [&](const Point& point) {
    return point.rate == rate && knows(point.latency, limit);
  });
}

RateSearch* RateSearch::means_of(const Target& target) const {
  return target.statistic == Statistic::kMean ? means_.get() : nullptr;
}

bool RateSearch::knows(const Latency& at, SizingLimit limit) const {
  if (!means_) return true;
  return limit == SizingLimit::kItl ? at.itl_percentiles_ms.has_value()
                                    : at.ttft_percentiles_ms.has_value();
}

std::optional<double> RateSearch::largest(const Target& target) {
  if (model_.mode == Mode::kClosedForm) {
    const auto rate = closed_form_rate(model_.iteration, workload_, target.limit, target.ms);
    return rate ? std::optional(std::min(*rate, high_)) : std::nullopt;
  }
  if (RateSearch* means = means_of(target)) return means->largest(target);
  if (!(value(low_, target) <= target.ms)) return std::nullopt;
  // No percentile is so far below the mean, and that is cheap to know.
  const bool far = means_ && means_->value(high_, target) > kFar * target.ms;
  if (!far && value(high_, target) <= target.ms) return high_;
  return largest_below(high_, target);
}

double RateSearch::largest_below(double missed, const Target& target) {
  if (RateSearch* means = means_of(target)) return means->largest_below(missed, target);
  const Statistic statistic = means_ ? target.statistic : Statistic::kMean;
  double good = low_, bad = missed;
  for (const Point& point : points_) {
    if (point.rate >= missed || !knows(point.latency, target.limit)) continue;
    if (value_of(point.latency, target.limit, statistic) <= target.ms) {
      good = std::max(good, point.rate);
    } else {
      bad = std::min(bad, point.rate);
    }
  }
  // Points may contradict each other where latencies do not quite grow with the rate.
  if (good >= bad) return good;
  return means_ ? percentile_root(target, good, bad) : root(target, good, bad);
}

double RateSearch::root(const Target& target, double good, double bad) {
  // Latency grows like 1 / (1 − load), so its reciprocal is close to a straight line.
  const auto headroom = [&](double rate) {
    return std::min(1e9, target.ms / value(rate, target)) - 1;
  };
  return bracketed_root(headroom, good, bad, kRelativeTolerance, kLeastShare * high_);
}

// A percentile of TTFT costs as much as dozens of means, and its ratio to the mean changes slowly:
// solved for the mean times that ratio, which two points near the root foretell, few are needed.
// One of gaps grows evenly with the rate where the mean does not.
double RateSearch::percentile_root(const Target& target, double good, double bad) {
  if (target.limit == SizingLimit::kItl) {
    const auto headroom = [&](double rate) {
      return std::min(1e9, target.ms / value(rate, target)) - 1;
    };
    return bracketed_root(headroom, good, bad, kPercentileTolerance, kLeastShare * high_);
  }
  const auto log_ratio = [&](double rate) {
    return std::log(value(rate, target) / means_->value(rate, target));
  };
  const double least = kLeastShare * high_;
  double last = good;
  std::optional<double> before;
  if (is_known(bad, target.limit)) before = bad;
  for (int step = 0; step < kPercentileStepsMax; ++step) {
    if (bad - good <= kPercentileTolerance * std::max(good, least)) break;
    const double at_last = log_ratio(last);
    double slope = before ? (at_last - log_ratio(*before)) / (last - *before) : 0;
    if (!std::isfinite(slope)) slope = 0;
    const auto foretold = [&](double rate) {
      return means_->value(rate, target) * std::exp(at_last + slope * (rate - last));
    };
    const auto headroom = [&](double rate) {
      return std::min(1e9, target.ms / foretold(rate)) - 1;
    };
    double next = bracketed_root(headroom, good, bad, 0.1 * kPercentileTolerance, least);
    // Close enough in the latency, and as far as this tells in the rate: some hardly grow with it.
    if (last == good && next - good <= kPercentileTolerance * std::max(good, least) &&
        value(good, target) >= (1 - kPercentileTolerance) * target.ms) {
      break;
    }
    // Rather below the root than above, by half of what is close enough.
    const double back = 0.5 * kPercentileTolerance;
    const double lower = std::log(target.ms / foretold(next * (1 - back)));
    next *= 1 - back * std::min(1.0, back / std::max(lower, 1e-12));
    // Where that is no progress, and now and then where progress is slow, halve the bracket.
    if (!(next > good && next < bad) || step % 8 == 7) next = 0.5 * (good + bad);
    before = last;
    last = next;
    (value(next, target) <= target.ms ? good : bad) = next;
  }
  return good;
}

}  // namespace tailrace::queueing
