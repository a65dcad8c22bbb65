#include "autoscaler/clairvoyant.h"

#include <algorithm>
#include <cmath>

#include "tailrace/core/check.h"

namespace tailrace::scenario {
namespace {

constexpr double kWarmSeconds = 300, kMeasuredSeconds = 1'500;
constexpr double kShareMet = 0.99;

bool keeps(const Scenario& scenario, const Mix& mix, double rate) {
  const auto fleet =
      scenario.constant_fleet(rate, kWarmSeconds + kMeasuredSeconds, mix, /*seed=*/1);
  const std::vector<int> same{mix.first, mix.second};
  const auto run = autoscaler::run_fleet(fleet, [&](const autoscaler::Snapshot&) { return same; });
  TAILRACE_CHECK(run.has_value());
  return run->goodput(kTargets, kWarmSeconds, kWarmSeconds + kMeasuredSeconds) >= kShareMet;
}

/// Requests/s at which every slot is busy; prompts and the batch's own cost make it less.
double busy_rate(const Scenario& scenario, const Mix& mix) {
  double rate = 0;
  for (const auto& variant : scenario.variants(mix)) {
    const engine::EngineConfig& engine = variant.engines.engine;
    rate += variant.engines.initial * 1e3 * static_cast<double>(engine.max_num_seqs) /
            (engine.cost.alpha_ms * scenario.length_mean);
  }
  return rate;
}

double rate_at(const std::vector<simulate::RatePoint>& profile, double at_s) {
  for (std::size_t i = 1; i < profile.size(); ++i) {
    const auto &from = profile[i - 1], &to = profile[i];
    if (at_s >= to.at_s || to.at_s <= from.at_s) continue;
    return from.rate + (to.rate - from.rate) * (at_s - from.at_s) / (to.at_s - from.at_s);
  }
  return profile.back().rate;
}

double cost_of(const Scenario& scenario, const Mix& mix) {
  return mix.first * scenario.kinds[0].cost + mix.second * scenario.kinds[1].cost;
}

}  // namespace

double measure_largest_rate(const Scenario& scenario, const Mix& mix) {
  if (mix.replicas() == 0) return 0;
  double high = busy_rate(scenario, mix), low = 0;
  while (high - low > 0.005 * high) {
    const double middle = (low + high) / 2;
    (keeps(scenario, mix, middle) ? low : high) = middle;
  }
  return low;
}

Mix cheapest_mix(const Scenario& scenario, double rate) {
  Mix best{kFirstMax, kSecondMax};
  for (int first = 0; first <= kFirstMax; ++first) {
    for (int second = 0; second <= kSecondMax; ++second) {
      const Mix mix{first, second};
      if (scenario.largest_rate(mix) < rate) continue;
      const double saved = cost_of(scenario, best) - cost_of(scenario, mix);
      if (saved > 0 || (saved == 0 && mix.replicas() < best.replicas())) best = mix;
    }
  }
  return best;
}

Clairvoyant clairvoyant(const Scenario& scenario, const Segment& segment) {
  const auto profile = scenario.profile();
  Clairvoyant out;
  for (double at_s = segment.from_s + 0.5; at_s < segment.to_s; ++at_s) {
    const double rate = std::max(rate_at(profile, at_s), rate_at(profile, at_s + kStartupSeconds));
    const Mix mix = cheapest_mix(scenario, rate);
    out.engine_s += mix.replicas();
    out.cost_s += cost_of(scenario, mix);
  }
  return out;
}

Clairvoyant clairvoyant(const Scenario& scenario) {
  Clairvoyant out;
  for (const Segment& segment : scenario.segments()) {
    const Clairvoyant part = clairvoyant(scenario, segment);
    out.engine_s += part.engine_s, out.cost_s += part.cost_s;
  }
  return out;
}

}  // namespace tailrace::scenario
