#include "schedule/weighted_rank.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tailrace::schedule {
namespace {

constexpr double kSpacing = 0.06;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// Dense towards both ends, where a token more or less matters.
std::vector<double> grid_to(double cap) {
  std::vector<double> ages;
  double age = 0;
  while (age < cap - 1) {
    ages.push_back(age);
    age += std::max(1.0, std::floor(kSpacing * std::min(age, cap - age)));
  }
  ages.push_back(cap - 1);  // so that the mass at the cap has a cell of its own
  ages.push_back(cap);
  return ages;
}

}  // namespace

WeightedRank::WeightedRank(const length::LengthLaw& law, Tokens cap, Tokens quantum,
                           double exponent)
    : cap_(static_cast<double>(cap.count())),
      quantum_(static_cast<double>(quantum.count())),
      exponent_(exponent),
      ages_(grid_to(cap_)),
      rest_(ages_.size(), 0.0),
      reward_(ages_.size(), 0.0),
      log_rank_(ages_.size(), kUnknown) {
  const length::ResidualTable table(law, cap, quantum);
  // From the end backwards: what is left in a far tail keeps its digits.
  double alive_after = 0;
  for (std::size_t i = ages_.size() - 1; i-- > 0;) {
    const Tokens age(static_cast<std::int64_t>(ages_[i]));
    const double alive = table.survival(age);
    const double middle = 0.5 * (ages_[i] + ages_[i + 1] + 1);
    rest_[i] = alive * table.mean_residual(age);
    reward_[i] = reward_[i + 1] + std::max(0.0, alive - alive_after) * std::pow(middle, -exponent_);
    alive_after = alive;
  }
}

double WeightedRank::log_rank(std::size_t point) {
  double& known = log_rank_[point];
  if (!std::isnan(known)) return known;
  // All that the cap allows, where the law gives it no chance to be here.
  double least = (cap_ - ages_[point]) * std::pow(cap_, exponent_);
  bool met = false;
  for (std::size_t stop = point + 1; stop < ages_.size(); ++stop) {
    if (ages_[stop] < ages_[point] + quantum_ && stop + 1 < ages_.size()) continue;
    const double reward = reward_[point] - reward_[stop];
    const double service = rest_[point] - rest_[stop];
    if (!(reward > 0) || !(service > 0)) continue;
    const double index = service / reward;
    if (!met || index < least) least = index;
    met = true;
  }
  known = std::log(least) / (1 + exponent_);
  return known;
}

double WeightedRank::at(Tokens age) {
  const double asked = static_cast<double>(age.count());
  const auto above = std::upper_bound(ages_.begin(), ages_.end() - 1, asked);
  const auto point = static_cast<std::size_t>(above - ages_.begin()) - 1;
  const double part = (asked - ages_[point]) / (ages_[point + 1] - ages_[point]);
  const double from = log_rank(point);
  if (part == 0) return std::exp(from);
  return std::exp(from + part * (log_rank(point + 1) - from));
}

}  // namespace tailrace::schedule
