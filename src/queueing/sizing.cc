#include "tailrace/queueing/sizing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tailrace::queueing {
namespace {

constexpr double kRelativeTolerance = 1e-10;
constexpr int kStepsMax = 200;
/// Of the largest rate: where a rate is so low that nobody meets anybody.
constexpr double kLeastShare = 1e-3;

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
  Workload w = workload;
  w.rate_per_s = 0;
  if (const auto ok = check(w); !ok) return fail(ok.error());
  const std::pair<SizingLimit, double> wanted[] = {{SizingLimit::kTtft, targets.ttft_ms},
                                                   {SizingLimit::kItl, targets.itl_ms},
                                                   {SizingLimit::kE2e, targets.e2e_ms}};
  for (const auto& [limit, target] : wanted) {
    if (target >= 0 && std::isfinite(target)) continue;
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} is not a number of milliseconds of at least 0; 0 is no target",
                            to_string(limit), target));
  }
  if (targets.statistic != Statistic::kMean && model.mode != Mode::kCorrected) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("percentile: {} knows means only; use corrected, or mean",
                            to_string(model.mode)));
  }
  const Detail detail =
      targets.statistic == Statistic::kMean ? Detail::kMeans : Detail::kPercentiles;
  const auto at = [&](double rate) {
    w.rate_per_s = rate;
    return latency_unchecked(model, w, detail);
  };
  const double most = at(0).max_rate_per_s;
  const double low_end = most * kLeastShare;
  const double high_end = most * (model.mode == Mode::kChain ? 1 : 1 - 1e-9);

  Sizing out;
  out.limit = SizingLimit::kStability;
  out.rate_per_s = high_end;
  out.reachable = true;
  for (const auto& [limit, target] : wanted) {
    if (target == 0) continue;
    const auto value = [&, which = limit](double rate) {
      return value_of(at(rate), which, targets.statistic);
    };
    std::optional<double>& alone = limit == SizingLimit::kTtft  ? out.ttft_rate_per_s
                                   : limit == SizingLimit::kItl ? out.itl_rate_per_s
                                                                : out.e2e_rate_per_s;
    if (value(low_end) > target) {
      out.reachable = false;
      out.limit = limit;
      out.reason = fmt::format("{} is {:.6g} ms even at {:.3g} requests/s, above its target {:.6g}",
                               to_string(limit), value(low_end), low_end, target);
      continue;
    }
    double low = low_end, high = high_end;
    if (value(high) <= target) {
      alone = high;
    } else {
      for (int step = 0; step < kStepsMax && high - low > kRelativeTolerance * low; ++step) {
        const double middle = 0.5 * (low + high);
        (value(middle) <= target ? low : high) = middle;
      }
      alone = low;
    }
    if (out.reachable && *alone < out.rate_per_s) {
      out.rate_per_s = *alone;
      out.limit = limit;
    }
  }
  if (!out.reachable) {
    out.rate_per_s = 0;
    out.achieved = at(low_end);
    return out;
  }
  out.achieved = at(out.rate_per_s);
  out.throughput_per_s = out.achieved.throughput_per_s.value_or(out.rate_per_s);
  out.reason = fmt::format("{} binds at {:.6g} requests/s", to_string(out.limit), out.rate_per_s);
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
