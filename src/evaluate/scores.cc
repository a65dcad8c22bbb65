#include "tailrace/evaluate/scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "tailrace/core/check.h"

namespace tailrace::evaluate {

Place place_of(const length::LengthLaw& law, const predict::Observation& truth, Tokens cap) {
  const std::int64_t k = std::clamp<std::int64_t>(truth.length.count(), 1, cap.count());
  const bool cut = truth.censored || k == cap.count();
  Place place;
  place.below = k == 1 ? 0 : 1 - law.survival(static_cast<double>(k - 1));
  place.up_to = cut ? 1 : 1 - law.survival(static_cast<double>(k));
  return place;
}

double log_score(const Place& place) {
  return std::log(std::max(place.up_to - place.below, kMassFloor));
}

double pinball_loss(double quantile, double length, double p) {
  const double gap = length - quantile;
  return std::max(p * gap, (p - 1) * gap);
}

double r_squared(std::span<const double> predicted, std::span<const double> realised) {
  TAILRACE_CHECK(predicted.size() == realised.size());
  if (realised.empty()) return 0;
  const double n = static_cast<double>(realised.size());
  const double mean = std::accumulate(realised.begin(), realised.end(), 0.0) / n;
  double total = 0;
  double left = 0;
  for (std::size_t i = 0; i < realised.size(); ++i) {
    total += (realised[i] - mean) * (realised[i] - mean);
    left += (realised[i] - predicted[i]) * (realised[i] - predicted[i]);
  }
  return total > 0 ? 1 - left / total : 0;
}

}  // namespace tailrace::evaluate
