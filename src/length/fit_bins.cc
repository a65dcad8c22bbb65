// A table of masses straight from the sample: single tokens first, then bins of one width on the
// log scale. All censoring is at one cap, so Kaplan and Meier's estimate is counting: nothing is
// censored before the last length below the cap.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "length/fit_families.h"
#include "length/likelihood.h"

namespace tailrace::length {
namespace {

constexpr double kSingleTokens = 32;    // bins of one token, atoms for whole-token questions
constexpr double kWidth = 1.05;         // of the bins after them: next edge/edge
constexpr double kMostLogBins = 900;    // wider bins instead where the longest needs more
constexpr double kWholeNumbers = 9e15;  // doubles count by ones up to here
constexpr double kNarrowSigma = 0.05;   // of the law that smooths where log-t has no maximum

/// Whole tokens that ascend to `top` or just beyond it; with a cap, to the cap itself.
std::vector<double> edges_to(double top, bool capped) {
  const double width = std::max(kWidth, std::pow(top / kSingleTokens, 1 / kMostLogBins));
  std::vector<double> edges;
  double edge = 1;
  while (edge < top) {
    edges.push_back(edge);
    const double next = edge < kSingleTokens ? edge + 1 : edge * width;
    edge = next < kWholeNumbers ? std::ceil(next) : next;
    if (!std::isfinite(edge)) edge = top;
  }
  edges.push_back(capped ? top : edge);
  return edges;
}

LengthLaw smoothing_law(const PreparedSample& sample) {
  if (sample.observed > 0) {
    const FamilyFit fit = fit_log_t(sample, {});
    if (fit.law) return *fit.law;
  }
  double centre = sample.log_cap;
  if (sample.observed > 0) {
    const auto at = std::max_element(sample.counts.begin(), sample.counts.end());
    centre = sample.logs[static_cast<std::size_t>(at - sample.counts.begin())];
  }
  // The logarithm of a double is always in range.
  return LengthLaw::log_t(std::clamp(centre, -700.0, 700.0), kNarrowSigma).value();
}

}  // namespace

Result<LengthLaw> fit_bins(const LengthSample& sample, double pseudo_count) {
  if (!(pseudo_count >= 0 && std::isfinite(pseudo_count))) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("pseudo_count: {} is out of range; give a finite number of "
                            "observations of at least 0, such as 1",
                            pseudo_count));
  }
  const auto prepared = prepare(sample);
  if (!prepared) return fail(prepared.error());
  const bool capped = sample.cap.has_value();
  const std::vector<double> edges =
      edges_to(capped ? *sample.cap : prepared->tokens.back(), capped);
  std::vector<double> masses(edges.size() + 1, 0.0);
  for (std::size_t i = 0; i < prepared->tokens.size(); ++i) {
    const auto bin = std::lower_bound(edges.begin(), edges.end(), prepared->tokens[i]);
    masses[static_cast<std::size_t>(bin - edges.begin())] += prepared->counts[i];
  }
  masses.back() += prepared->censored;
  if (pseudo_count > 0) {
    const LengthLaw law = smoothing_law(*prepared);
    double alive = 1;
    for (std::size_t i = 0; i < edges.size(); ++i) {
      const double survival = law.survival(edges[i]);
      masses[i] += pseudo_count * std::max(0.0, alive - survival);
      alive = survival;
    }
    masses.back() += pseudo_count * alive;
  }
  return LengthLaw::binned(edges, masses);
}

}  // namespace tailrace::length
