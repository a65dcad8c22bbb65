#include "tailrace/queueing/sizing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "queueing/oracle_search.h"
#include "queueing/rate_search.h"

namespace tailrace::queueing {
namespace {

constexpr double kRounding = 1e-9;
/// What mean latencies may be off by where the formula is out of its range, as a share of them (of
/// TTFT, where most of it is the wait for a slot, more), and what their rate may then be off by and
/// be given without a warning. Measured.
constexpr double kTtftDoubt = 0.25, kWaitDoubt = 1, kItlDoubt = 0.05, kRateDoubt = 0.04;
/// Share of the largest rate up to which preemptions leave mean latencies within that.
constexpr double kDoubtsKnown = 0.9;

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

std::string_view prefix(Statistic statistic) {
  switch (statistic) {
    case Statistic::kMean:
      return "";
    case Statistic::kP50:
      return "P50 of the ";
    case Statistic::kP90:
      return "P90 of the ";
    case Statistic::kP95:
      return "P95 of the ";
    case Statistic::kP99:
      return "P99 of the ";
  }
  return "";
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

Result<std::vector<Target>> read(const Targets& targets, Mode mode) {
  const auto means_only = [mode](std::string_view field) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: the {} model knows means only; use corrected, or mean", field,
                            to_string(mode)));
  };
  if (targets.statistic != Statistic::kMean && mode != Mode::kCorrected) {
    return means_only("percentile");
  }
  std::vector<Target> out;
  for (const auto& [limit, ms] : {std::pair(SizingLimit::kTtft, targets.ttft_ms),
                                  {SizingLimit::kItl, targets.itl_ms},
                                  {SizingLimit::kE2e, targets.e2e_ms}}) {
    const Target target{limit, ms, statistic_of(targets, limit)};
    if (target.statistic != Statistic::kMean && mode != Mode::kCorrected) {
      return means_only(to_string(limit));
    }
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
  const double percent = 100 * (least_ms / target.ms - 1);
  return fmt::format(
      "the {}{} is {:.6g} ms on an idle replica already, {} above its target of {:.6g} ms, so no "
      "number of replicas keeps it; it takes a target of at least {:.6g} ms, {}",
      prefix(target.statistic), long_name(target.limit), least_ms,
      std::isfinite(percent) ? fmt::format("{:.3g} %", percent) : "far", target.ms, least_ms,
      remedy(target.limit));
}

std::string guess(OutOfRange reason) {
  return fmt::format("; the formula is out of its range there ({}), so simulate to be sure",
                     to_string(reason));
}

std::string why_bound(const Sizing& sizing, const std::vector<Target>& targets) {
  std::string why =
      fmt::format("every target holds up to the largest rate, {:.6g} requests/s, which {} sets",
                  sizing.rate_per_s, to_string(sizing.achieved.binding));
  for (const Target& target : targets) {
    if (target.limit != sizing.limit) continue;
    why = fmt::format("above {:.6g} requests/s the {}{} passes its target of {:.6g} ms",
                      sizing.rate_per_s, prefix(target.statistic), long_name(target.limit),
                      target.ms);
  }
  if (sizing.achieved.from_oracle) return why + ", by simulation";
  const OutOfRange reason = sizing.achieved.out_of_range;
  if (reason == OutOfRange::kNone) return why;
  if (sizing.out_of_range == OutOfRange::kNone) {
    return why + fmt::format(
                     "; the formula's times are out of their range there ({}), which moves "
                     "the rate by less than {:.0f} %",
                     to_string(reason), 100 * kRateDoubt);
  }
  return why + guess(reason);
}

/// Why not even an idle replica serves one request.
std::string why_none_fits(const ServiceLimits& limits, const Workload& w) {
  return fmt::format(
      "no request ever ends: its {:.6g} prompt and {:.6g} answer tokens exceed the {} tokens of "
      "context that fit in memory (kv_tokens); it takes more memory or shorter requests",
      w.input_mean, w.output_mean, limits.kv_tokens);
}

/// At the largest rate itself a queue has no finite length, and a hair below it whatever the hair
/// makes it. What a target has asked about is left.
void forget_the_line(Latency& at, const std::vector<Target>& targets) {
  for (const Target& target : targets) {
    if (target.limit != SizingLimit::kItl) return;
  }
  at.ttft_ms = at.e2e_ms = at.wait_ms = std::nullopt;
  at.ttft_percentiles_ms = at.e2e_percentiles_ms = std::nullopt;
}

/// Each target alone, then the tightest of them, by the formula.
Sizing by_formula(RateSearch& search, const std::vector<Target>& targets) {
  Sizing out;
  out.reachable = true;
  out.limit = SizingLimit::kStability;
  out.rate_per_s = search.high();
  double worst_excess = 0;
  for (const Target& target : targets) {
    const auto rate = search.largest(target);
    alone(out, target.limit) = rate;
    if (!rate) {
      const double least_ms = search.value(search.low(), target);
      out.reachable = false;
      if (const double excess = least_ms / target.ms; excess > worst_excess) {
        worst_excess = excess;
        out.limit = target.limit;
        out.reason = why_unreachable(target, least_ms);
      }
    } else if (out.reachable && *rate < out.rate_per_s) {
      out.rate_per_s = *rate;
      out.limit = target.limit;
    }
  }
  if (!out.reachable) {
    out.rate_per_s = 0;
    out.achieved = search.at(search.low());
    return out;
  }
  // A percentile that holds at its own rate may be missed a little below it.
  out.achieved = search.at(out.rate_per_s);
  for (const Target& target : targets) {
    if (search.value(out.rate_per_s, target) <= target.ms * (1 + kRounding)) continue;
    out.rate_per_s = search.largest_below(out.rate_per_s, target);
    out.limit = target.limit;
    out.achieved = search.at(out.rate_per_s);
  }
  return out;
}

/// Out of range are latencies. The rate is so where what they may be off by moves it.
OutOfRange range_of_rate(const Sizing& found, RateSearch& search,
                         const std::vector<Target>& targets) {
  const Latency& at = found.achieved;
  if (at.out_of_range == OutOfRange::kNone) return at.out_of_range;
  for (const Target& target : targets) {
    if (target.statistic != Statistic::kMean) return at.out_of_range;
  }
  // The largest rate is an estimate too, and who waits for memory waits for preemptions.
  if (found.limit == SizingLimit::kStability) return at.out_of_range;
  if (at.binding == Binding::kKvTokens &&
      (found.limit != SizingLimit::kItl || found.rate_per_s > kDoubtsKnown * at.max_rate_per_s)) {
    return at.out_of_range;
  }
  // Do all targets hold at a rate if every latency is as much longer, or shorter?
  const bool waits =
      found.limit != SizingLimit::kItl && at.out_of_range != OutOfRange::kPrefillDominated;
  const auto hold_at = [&](double rate, bool longer) {
    return std::all_of(targets.begin(), targets.end(), [&](const Target& target) {
      const double doubt = target.limit == SizingLimit::kItl ? kItlDoubt
                           : waits                           ? kWaitDoubt
                                                             : kTtftDoubt;
      const double ms = longer ? target.ms / (1 + doubt) : target.ms * (1 + doubt);
      return search.value(rate, target) <= ms;
    });
  };
  const double less = (1 - kRateDoubt) * found.rate_per_s;
  const double more = (1 + kRateDoubt) * found.rate_per_s;
  const bool known = hold_at(less, true) && (more >= search.high() || !hold_at(more, false));
  return known ? OutOfRange::kNone : at.out_of_range;
}

}  // namespace

std::string_view to_string(Statistic which) {
  switch (which) {
    case Statistic::kMean:
      return "mean";
    case Statistic::kP50:
      return "p50";
    case Statistic::kP90:
      return "p90";
    case Statistic::kP95:
      return "p95";
    case Statistic::kP99:
      return "p99";
  }
  return "";
}

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

Statistic statistic_of(const Targets& targets, SizingLimit limit) {
  const std::optional<Statistic>& own = limit == SizingLimit::kTtft  ? targets.ttft_statistic
                                        : limit == SizingLimit::kItl ? targets.itl_statistic
                                                                     : targets.e2e_statistic;
  return own.value_or(targets.statistic);
}

Result<Sizing> size(const ServiceModel& model, const Workload& workload, const Targets& targets) {
  if (const auto ok = model.check(); !ok) return fail(ok.error());
  Workload idle = workload;
  idle.rate_per_s = 0;
  if (const auto ok = check(idle); !ok) return fail(ok.error());
  auto wanted = read(targets, model.mode);
  if (!wanted) return fail(wanted.error());
  const bool has_itl = has_further_token(model, idle);
  const bool itl_holds = targets.itl_ms > 0 && !has_itl;
  if (itl_holds) {
    std::erase_if(*wanted, [](const Target& t) { return t.limit == SizingLimit::kItl; });
  }

  RateSearch search(model, idle, *wanted);
  if (const Latency& at = search.at(0); !at.stable && at.binding == Binding::kKvTokens) {
    Sizing none;
    none.limit = SizingLimit::kStability;
    none.achieved = at;
    none.reason = why_none_fits(model.limits, idle);
    return none;
  }
  Sizing out = by_formula(search, *wanted);
  if (itl_holds) out.itl_rate_per_s = search.high();
  if (!has_itl) out.achieved.itl_ms = std::nullopt;
  if (!out.reachable) {
    out.out_of_range = out.achieved.out_of_range;
    if (out.out_of_range != OutOfRange::kNone) out.reason += guess(out.out_of_range);
    return out;
  }
  out.out_of_range = range_of_rate(out, search, *wanted);
  if (model.oracle && out.achieved.out_of_range != OutOfRange::kNone) {
    const auto probe = search_with_oracle(model, idle, *wanted, out.rate_per_s, search);
    if (!probe) return fail(probe.error());
    if (*probe) {
      out.rate_per_s = (*probe)->rate;
      out.limit = (*probe)->limit;
      const OutOfRange why = out.achieved.out_of_range;
      out.achieved = (*probe)->latency;
      out.achieved.out_of_range = why;
      if (!has_itl) out.achieved.itl_ms = std::nullopt;
    }
  }
  out.throughput_per_s = out.achieved.throughput_per_s.value_or(out.rate_per_s);
  out.reason = why_bound(out, *wanted);
  if (itl_holds) out.reason += "; answers of one token have no time between tokens";
  if (out.limit == SizingLimit::kStability && model.mode != Mode::kChain &&
      out.rate_per_s == search.high() && !out.achieved.from_oracle) {
    forget_the_line(out.achieved, *wanted);
    if (!out.achieved.ttft_ms) {
      out.reason += "; the queue grows without bound there, so no time that includes it is given";
    }
  }
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
