#include <algorithm>
#include <cmath>

#include "tailrace/core/check.h"
#include "tailrace/length/goodness.h"
#include "tailrace/length/sample.h"

namespace tailrace::length {
namespace {

/// Resamples that have no fit are drawn again, this many times the number asked for in all.
constexpr int kDrawsPerResample = 4;
/// Distances that differ by rounding alone are equal: on whole tokens the same ones come again.
constexpr double kSame = 1e-12;

bool all_whole(const std::vector<double>& lengths) {
  return std::all_of(lengths.begin(), lengths.end(),
                     [](double length) { return length == std::ceil(length); });
}

void draw_like(const LengthSample& sample, const LengthLaw& law, bool whole, Rng& rng,
               LengthSample& out) {
  for (double& length : out.lengths) {
    length = length::sample(law, rng);
    if (whole) length = std::ceil(length);
    if (sample.cap) length = std::min(length, *sample.cap);
  }
}

}  // namespace

std::optional<BootstrapP> bootstrap_p_values(const LengthSample& sample, const FamilyFit& fit,
                                             const FitOptions& options, int resamples, Rng rng) {
  TAILRACE_CHECK(resamples > 0);
  if (!fit.law) return std::nullopt;
  const double ks = ks_distance(sample, *fit.law) - kSame;
  const double ad = ad_distance(sample, *fit.law) * (1 - kSame);
  const bool whole = all_whole(sample.lengths);
  LengthSample drawn = sample;
  int fitted = 0;
  int ks_beyond = 0;
  int ad_beyond = 0;
  for (std::int64_t left = std::int64_t{resamples} * kDrawsPerResample; fitted < resamples;
       --left) {
    if (left == 0) return std::nullopt;
    draw_like(sample, *fit.law, whole, rng, drawn);
    const Result<FamilyFit> again = fit_family(fit.family, drawn, options);
    if (!again || !again->law) continue;
    ++fitted;
    if (ks_distance(drawn, *again->law) >= ks) ++ks_beyond;
    if (ad_distance(drawn, *again->law) >= ad) ++ad_beyond;
  }
  const double count = resamples + 1;
  return BootstrapP{(ks_beyond + 1) / count, (ad_beyond + 1) / count};
}

}  // namespace tailrace::length
