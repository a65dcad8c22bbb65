#include "tailrace/queueing/sizing.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>
#include <vector>

#include "queueing/modes.h"

namespace tailrace::queueing {
namespace {

constexpr double kRelativeTolerance = 1e-10;
/// Of a root search: TOMS 748 takes about ten, and never more than bisection three times over.
constexpr std::uintmax_t kStepsMax = 200;
/// Of the largest rate: below it the search needs no relative precision.
constexpr double kLeastShare = 1e-6;
/// Below the largest rate, where every latency would be infinite.
constexpr double kBelowMost = 1 - 1e-9;

struct Target {
  SizingLimit limit;
  double ms;
};

std::string_view long_name(SizingLimit limit) {
  switch (limit) {
    case SizingLimit::kTtft:
      return "time to first token";
    case SizingLimit::kItl:
      return "time per token";
    case SizingLimit::kE2e:
      return "end-to-end time";
    default:
      return to_string(limit);
  }
}

/// What shortens a latency that is too long on an idle replica already.
std::string_view remedy(SizingLimit limit) {
  switch (limit) {
    case SizingLimit::kTtft:
      return "shorter prompts or a faster accelerator";
    case SizingLimit::kItl:
      return "shorter contexts or a faster accelerator";
    default:
      return "shorter answers or a faster accelerator";
  }
}

double value_of(const Latency& at, SizingLimit limit, Statistic statistic) {
  const auto pick = [&](const std::optional<double>& mean, const std::optional<Percentiles>& p) {
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
  };
  switch (limit) {
    case SizingLimit::kTtft:
      return pick(at.ttft_ms, at.ttft_percentiles_ms);
    case SizingLimit::kItl:
      return pick(at.itl_ms, at.itl_percentiles_ms);
    default:
      return pick(at.e2e_ms, at.e2e_percentiles_ms);
  }
}

/// Looks for the largest rates that keep targets, and remembers every point it asked for: the
/// search for one target narrows the next one's.
class RateSearch {
 public:
  RateSearch(const ServiceModel& model, const Workload& workload, Statistic statistic)
      : model_(model),
        workload_(workload),
        statistic_(statistic),
        detail_(statistic == Statistic::kMean ? Detail::kMeans : Detail::kPercentiles) {
    workload_.rate_per_s = 0;
    const double most =
        std::min(kRateMax, latency_unchecked(model_, workload_, Detail::kMeans).max_rate_per_s);
    // The chain may run at its largest rate; the other modes' latencies are infinite there.
    high_ = model_.mode == Mode::kChain ? most : most * kBelowMost;
    if (model_.mode == Mode::kChain) {
      low_ = std::min(high_, chain_least_rate(model_.iteration, workload_));
    }
  }

  double low() const { return low_; }
  double high() const { return high_; }
  double value(double rate, SizingLimit limit) { return value_of(at(rate), limit, statistic_); }

  const Latency& at(double rate) {
    for (const Point& point : points_) {
      if (point.rate == rate) return point.latency;
    }
    workload_.rate_per_s = rate;
    points_.push_back({rate, latency_unchecked(model_, workload_, detail_)});
    return points_.back().latency;
  }

  /// The largest rate in range at which the target holds; empty where none does.
  std::optional<double> largest(const Target& target) {
    if (model_.mode == Mode::kClosedForm) {
      const auto rate = closed_form_rate(model_.iteration, workload_, target.limit, target.ms);
      return rate ? std::optional(std::min(*rate, high_)) : std::nullopt;
    }
    if (value(low_, target.limit) > target.ms) return std::nullopt;
    if (value(high_, target.limit) <= target.ms) return high_;
    double good = low_, bad = high_;
    for (const Point& point : points_) {
      if (value_of(point.latency, target.limit, statistic_) <= target.ms) {
        good = std::max(good, point.rate);
      } else {
        bad = std::min(bad, point.rate);
      }
    }
    // Latency grows like 1 / (1 − load), so its reciprocal is close to a straight line.
    const auto headroom = [&](double rate) {
      const double latency = value(rate, target.limit);
      const double share = latency > 0 ? std::min(1e9, target.ms / latency) : 1e9;
      return share - 1;
    };
    const auto close = [&](double a, double b) {
      return b - a <= kRelativeTolerance * std::max(a, kLeastShare * high_);
    };
    const double at_good = headroom(good), at_bad = headroom(bad);
    if (good >= bad || close(good, bad) || at_good <= 0) return good;
    std::uintmax_t steps = kStepsMax;
    return boost::math::tools::toms748_solve(headroom, good, bad, at_good, at_bad, close, steps)
        .first;
  }

 private:
  struct Point {
    double rate;
    Latency latency;
  };

  ServiceModel model_;
  Workload workload_;
  Statistic statistic_;
  Detail detail_;
  double low_ = 0, high_ = 0;
  std::vector<Point> points_;
};

Result<std::vector<Target>> read(const Targets& targets, Mode mode) {
  if (targets.statistic != Statistic::kMean && mode != Mode::kCorrected) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("percentile: the {} model knows means only; use corrected, or mean",
                            to_string(mode)));
  }
  std::vector<Target> out;
  for (const Target& target :
       {Target{SizingLimit::kTtft, targets.ttft_ms}, Target{SizingLimit::kItl, targets.itl_ms},
        Target{SizingLimit::kE2e, targets.e2e_ms}}) {
    if (!(target.ms >= 0) || !std::isfinite(target.ms)) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: {} is not a number of milliseconds of at least 0; give 0 for no "
                              "target",
                              to_string(target.limit), target.ms));
    }
    if (target.ms > 0) out.push_back(target);
  }
  return out;
}

std::optional<double>& alone(Sizing& sizing, SizingLimit limit) {
  return limit == SizingLimit::kTtft  ? sizing.ttft_rate_per_s
         : limit == SizingLimit::kItl ? sizing.itl_rate_per_s
                                      : sizing.e2e_rate_per_s;
}

std::string why_unreachable(const Target& target, double least_ms) {
  return fmt::format(
      "the {} is {:.6g} ms on an idle replica already, {:.3g} % above its target of {:.6g} ms, so "
      "no number of replicas keeps it; it takes a target of at least {:.6g} ms, {}",
      long_name(target.limit), least_ms, 100 * (least_ms / target.ms - 1), target.ms, least_ms,
      remedy(target.limit));
}

std::string why_bound(const Sizing& sizing, double target_ms) {
  if (sizing.limit == SizingLimit::kStability) {
    return fmt::format(
        "every target holds up to the largest rate, {:.6g} requests/s, which {} sets",
        sizing.rate_per_s, to_string(sizing.achieved.binding));
  }
  return fmt::format("the {} reaches its target of {:.6g} ms at {:.6g} requests/s",
                     long_name(sizing.limit), target_ms, sizing.rate_per_s);
}

}  // namespace

std::string_view to_string(SizingLimit limit) {
  switch (limit) {
    case SizingLimit::kNone:
      return "none";
    case SizingLimit::kTtft:
      return "ttft";
    case SizingLimit::kItl:
      return "itl";
    case SizingLimit::kE2e:
      return "e2e";
    case SizingLimit::kStability:
      return "stability";
  }
  return "";
}

Result<Sizing> size(const ServiceModel& model, const Workload& workload, const Targets& targets) {
  if (const auto ok = model.check(); !ok) return fail(ok.error());
  Workload idle = workload;
  idle.rate_per_s = 0;
  if (const auto ok = check(idle); !ok) return fail(ok.error());
  const auto wanted = read(targets, model.mode);
  if (!wanted) return fail(wanted.error());

  RateSearch search(model, idle, targets.statistic);
  Sizing out;
  out.reachable = true;
  out.limit = SizingLimit::kStability;
  out.rate_per_s = search.high();
  double binding_ms = 0;
  double worst_excess = 0;
  for (const Target& target : *wanted) {
    const auto rate = search.largest(target);
    alone(out, target.limit) = rate;
    if (!rate) {
      const double least_ms = search.value(search.low(), target.limit);
      out.reachable = false;
      if (const double excess = least_ms / target.ms; excess > worst_excess) {
        worst_excess = excess;
        out.limit = target.limit;
        out.reason = why_unreachable(target, least_ms);
      }
    } else if (out.reachable && *rate < out.rate_per_s) {
      out.rate_per_s = *rate;
      out.limit = target.limit;
      binding_ms = target.ms;
    }
  }
  if (!out.reachable) {
    out.rate_per_s = 0;
    out.achieved = search.at(search.low());
    return out;
  }
  out.achieved = search.at(out.rate_per_s);
  out.throughput_per_s = out.achieved.throughput_per_s.value_or(out.rate_per_s);
  out.reason = why_bound(out, binding_ms);
  return out;
}

Result<std::int64_t> replicas_for(double arrival_per_s, double capacity_per_s) {
  if (!(arrival_per_s >= 0) || !(capacity_per_s > 0) || !std::isfinite(arrival_per_s)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("arrival: {} requests/s over a capacity of {} gives no number of "
                            "replicas; give an arrival of at least 0 and a capacity above 0",
                            arrival_per_s, capacity_per_s));
  }
  const double replicas = std::max(1.0, std::ceil(arrival_per_s / capacity_per_s));
  if (replicas > 1e9) {
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("arrival: {} requests/s over a capacity of {} takes more than 1e9 "
                            "replicas",
                            arrival_per_s, capacity_per_s));
  }
  return static_cast<std::int64_t>(replicas);
}

SloFromMultiplier infer_slo(const IterationModel& m, const Workload& w, double k) {
  return {k * m.alpha_ms + (m.beta_ms + m.gamma_ms) * w.input_mean,
          k * m.alpha_ms + m.beta_ms + m.gamma_ms * (w.input_mean + (w.output_mean + 1) / 2)};
}

}  // namespace tailrace::queueing
