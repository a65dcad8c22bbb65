#include "autoscaler/clairvoyant.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tailrace/core/check.h"

namespace tailrace::scenario {
namespace {

constexpr double kWarmSeconds = 300, kMeasuredSeconds = 1'500;
constexpr double kShareMet = 0.99;

bool keeps(const Mix& mix, double rate) {
  const auto fleet =
      constant_fleet(rate, kWarmSeconds + kMeasuredSeconds, mix.tp4, mix.tp8, /*seed=*/1);
  const std::vector<int> same{mix.tp4, mix.tp8};
  const auto run = autoscaler::run_fleet(fleet, [&](const autoscaler::Snapshot&) { return same; });
  TAILRACE_CHECK(run.has_value());
  return run->goodput(kTargets, kWarmSeconds, kWarmSeconds + kMeasuredSeconds) >= kShareMet;
}

double rate_at(const std::vector<simulate::RatePoint>& profile, double at_s) {
  for (std::size_t i = 1; i < profile.size(); ++i) {
    const auto &from = profile[i - 1], &to = profile[i];
    if (at_s >= to.at_s || to.at_s <= from.at_s) continue;
    return from.rate + (to.rate - from.rate) * (at_s - from.at_s) / (to.at_s - from.at_s);
  }
  return profile.back().rate;
}

template <class Of>
double integral(const std::vector<simulate::RatePoint>& profile, double duration_s, Of of) {
  double sum = 0;
  for (double at_s = 0.5; at_s < duration_s; ++at_s) {
    const double rate = std::max(rate_at(profile, at_s), rate_at(profile, at_s + kStartupSeconds));
    sum += of(cheapest_mix(rate));
  }
  return sum;
}

double cost_of(const Mix& mix) {
  static const auto kinds = variants(0, 0);
  return mix.tp4 * kinds[0].cost + mix.tp8 * kinds[1].cost;
}

}  // namespace

double measure_largest_rate(const Mix& mix) {
  if (mix.replicas() == 0) return 0;
  double low = 4.0 * mix.tp4 + 8.0 * mix.tp8, high = 8.0 * mix.tp4 + 14.0 * mix.tp8;
  while (high - low > 0.005 * high) {
    const double middle = (low + high) / 2;
    (keeps(mix, middle) ? low : high) = middle;
  }
  return low;
}

double largest_rate(const Mix& mix) {
  static constexpr std::array<std::array<double, kTp8Max + 1>, kTp4Max + 1> kRates{{
      {0.00, 10.53, 22.47, 34.27, 46.25, 58.28, 70.22},
      {5.95, 17.39, 29.50, 41.23, 53.28, 65.25, 77.62},
      {13.00, 24.64, 36.34, 48.45, 60.25, 72.64, 84.88},
      {19.69, 31.39, 43.38, 55.45, 67.62, 79.89, 91.88},
      {26.88, 38.44, 50.38, 62.58, 74.56, 86.91, 98.94},
  }};
  return kRates[static_cast<std::size_t>(mix.tp4)][static_cast<std::size_t>(mix.tp8)];
}

Mix cheapest_mix(double rate) {
  Mix best{kTp4Max, kTp8Max};
  for (int tp4 = 0; tp4 <= kTp4Max; ++tp4) {
    for (int tp8 = 0; tp8 <= kTp8Max; ++tp8) {
      const Mix mix{tp4, tp8};
      if (largest_rate(mix) < rate) continue;
      const double saved = cost_of(best) - cost_of(mix);
      if (saved > 0 || (saved == 0 && mix.replicas() < best.replicas())) best = mix;
    }
  }
  return best;
}

double clairvoyant_engine_s(const std::vector<simulate::RatePoint>& profile, double duration_s) {
  return integral(profile, duration_s, [](const Mix& mix) { return double(mix.replicas()); });
}

double clairvoyant_cost_s(const std::vector<simulate::RatePoint>& profile, double duration_s) {
  return integral(profile, duration_s, cost_of);
}

}  // namespace tailrace::scenario
