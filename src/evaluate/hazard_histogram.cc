#include "evaluate/hazard_histogram.h"

#include <algorithm>
#include <cmath>

#include "tailrace/core/check.h"

namespace tailrace::evaluate {
namespace {

constexpr double kUnitBins = 16;
constexpr double kGrowth = 1.08;
constexpr double kLongest = 131'072;
// Windows of 17, of 5 and of one bin; each starts from what the wider one found.
constexpr std::size_t kReaches[] = {8, 2, 0};

std::vector<double> make_edges() {
  std::vector<double> edges;
  for (double edge = 1; edge <= kUnitBins; ++edge) edges.push_back(edge);
  while (edges.back() < kLongest) edges.push_back(std::ceil(edges.back() * kGrowth));
  return edges;
}

std::size_t bin_of(double tokens) {
  const auto edges = histogram_edges();
  const auto at = std::lower_bound(edges.begin(), edges.end(), tokens);
  return std::min(static_cast<std::size_t>(at - edges.begin()), edges.size() - 1);
}

}  // namespace

std::span<const double> histogram_edges() {
  static const std::vector<double> edges = make_edges();
  return edges;
}

Hazards vague_hazards() {
  const auto edges = histogram_edges();
  const auto law = length::LengthLaw::log_t(std::log(150.0), 1.0);
  TAILRACE_CHECK(law.has_value());
  Hazards hazards;
  double alive = 1;
  for (const double edge : edges) {
    const double left = law->survival(edge);
    hazards.push_back(1 - left / alive);
    alive = left;
  }
  return hazards;
}

length::LengthLaw law_of(const Hazards& hazards) {
  std::vector<double> masses;
  masses.reserve(hazards.size() + 1);
  double alive = 1;
  for (const double hazard : hazards) {
    masses.push_back(alive * hazard);
    alive *= 1 - hazard;
  }
  masses.push_back(alive);
  auto law = length::LengthLaw::binned(histogram_edges(), masses);
  TAILRACE_CHECK(law.has_value());
  return *law;
}

HazardHistogram::HazardHistogram() : counts_(2 * histogram_edges().size()) {}

void HazardHistogram::add(const predict::Observation& observation, Tokens cap) {
  const Tokens length = std::min(observation.length, cap);
  const bool cut = observation.censored || length == cap;
  // Cut at k: known to be longer than k − 1, so it was never at risk in the bin that ends with k.
  const double tokens = static_cast<double>(length.count()) - (cut ? 1 : 0);
  if (cut && tokens < 1) return;
  counts_[bin_of(tokens) + (cut ? histogram_edges().size() : 0)] += 1;
}

void HazardHistogram::add_spread(const predict::Observation& observation, Tokens cap,
                                 double width) {
  if (observation.censored || observation.length >= cap) {
    add(observation, cap);
    return;
  }
  const auto edges = histogram_edges();
  const double centre = std::max(static_cast<double>(observation.length.count()) - 0.5, 0.5);
  const auto below = [&](double tokens) {
    return 0.5 * std::erfc(-std::log(tokens / centre) / (width * std::sqrt(2.0)));
  };
  constexpr double kReach = 4;
  const std::size_t first = bin_of(centre * std::exp(-kReach * width));
  const std::size_t last = bin_of(centre * std::exp(kReach * width));
  double before = 0;
  for (std::size_t b = first; b <= last; ++b) {
    const double up_to = b == last ? 1 : below(edges[b]);
    counts_[b] += static_cast<float>(up_to - before);
    before = up_to;
  }
}

Hazards HazardHistogram::sharpened(Hazards hazards, double prior_ends) const {
  const std::size_t bins = hazards.size();
  std::vector<double> at_risk(bins);
  double beyond = 0;
  for (std::size_t b = bins; b-- > 0;) {
    const double cut = counts_[bins + b];
    beyond += counts_[b] + cut;
    // An answer that was cut in this bin lived through about half of it.
    at_risk[b] = beyond - cut / 2;
  }
  std::vector<double> ended(bins + 1);
  std::vector<double> expected(bins + 1);
  for (const std::size_t reach : kReaches) {
    for (std::size_t b = 0; b < bins; ++b) {
      ended[b + 1] = ended[b] + counts_[b];
      expected[b + 1] = expected[b] + at_risk[b] * hazards[b];
    }
    for (std::size_t b = 0; b < bins; ++b) {
      const std::size_t low = b - std::min(b, reach);
      const std::size_t high = std::min(bins, b + reach + 1);
      const double factor =
          (ended[high] - ended[low] + prior_ends) / (expected[high] - expected[low] + prior_ends);
      hazards[b] = std::min(1.0, hazards[b] * factor);
    }
  }
  return hazards;
}

}  // namespace tailrace::evaluate
