#include "queueing/oracle_search.h"

#include <algorithm>
#include <cmath>

namespace tailrace::queueing {
namespace {

constexpr int kCallsMax = 8;
/// Of the tightest target: about the simulator's own. So small a part of the rate settles it too.
constexpr double kPrecision = 0.01;
constexpr double kRatePrecision = 0.002;
/// How far to go back from a rate at which the backlog grows, or when targets go on being missed.
constexpr double kRetreat = 0.9;
constexpr int kMissesBeforeRetreat = 2;

Probe judge(double rate, const Latency& latency, const std::vector<Target>& targets) {
  Probe probe{.rate = rate, .latency = latency};
  for (const Target& target : targets) {
    const double share = value_of(latency, target.limit, target.statistic) / target.ms;
    if (share > probe.tightest) {
      probe.tightest = share;
      probe.limit = target.limit;
    }
  }
  probe.holds = latency.stable && probe.tightest <= 1;
  return probe;
}

/// What the formula allows when corrected by how wrong it is at `probe`.
double corrected_rate(const Probe& probe, const std::vector<Target>& targets, RateSearch& formula) {
  double rate = formula.high();
  for (const Target& target : targets) {
    const double factor =
        value_of(probe.latency, target.limit, target.statistic) / formula.value(probe.rate, target);
    if (!(factor > 0) || !std::isfinite(target.ms / factor)) continue;
    const auto alone = formula.largest({target.limit, target.ms / factor, target.statistic});
    rate = std::min(rate, alone.value_or(formula.low()));
  }
  return rate;
}

}  // namespace

Result<std::optional<Probe>> search_with_oracle(const ServiceModel& model, const Workload& workload,
                                                const std::vector<Target>& targets,
                                                double formula_rate, RateSearch& formula) {
  std::optional<Probe> good, bad;
  Workload at = workload;
  at.rate_per_s = formula_rate;
  for (int call = 0; call < kCallsMax; ++call) {
    const auto latency = model.oracle->latency(model, at);
    if (!latency && latency.error().code == ErrorCode::kUnsupported) break;
    if (!latency) return fail(latency.error());
    const Probe probe = judge(at.rate_per_s, *latency, targets);
    (probe.holds ? good : bad) = probe;
    if (probe.holds && (probe.tightest >= 1 - kPrecision || probe.rate >= formula.high())) break;
    if (good && bad && bad->rate - good->rate <= kRatePrecision * good->rate) break;

    double next = latency->stable ? corrected_rate(probe, targets, formula)
                                  : kRetreat * std::min(probe.rate, latency->max_rate_per_s);
    if (!good && call >= kMissesBeforeRetreat) next = std::min(next, kRetreat * bad->rate);
    // Between what held and what did not: the simulator's noise may ask for neither.
    if (bad && next >= bad->rate) next = good ? (good->rate + bad->rate) / 2 : kRetreat * bad->rate;
    if (good && next <= good->rate) {
      next = bad ? (good->rate + bad->rate) / 2 : (good->rate + formula.high()) / 2;
    }
    at.rate_per_s = next;
  }
  if (good && good->tightest < 1 - kPrecision && (!bad || !bad->latency.stable)) {
    good->limit = SizingLimit::kStability;
  }
  return good;
}

}  // namespace tailrace::queueing
