#include "tailrace/length/fit.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "length/fit_families.h"
#include "length/likelihood.h"
#include "tailrace/core/check.h"

namespace tailrace::length {
namespace {

constexpr double kLeastNu = 0.1;  // the range of LengthLaw::log_t
constexpr double kGreatestNu = 1e9;

Result<void> check(const FitOptions& options) {
  const auto in_range = [](const char* name, double nu) -> Result<void> {
    if (nu >= kLeastNu && nu <= kGreatestNu) return {};
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} is out of range; give degrees of freedom from {} to {}, such "
                            "as 3.5",
                            name, nu, kLeastNu, kGreatestNu));
  };
  if (options.nu) return in_range("nu", *options.nu);
  if (const auto ok = in_range("nu_min", options.nu_min); !ok) return ok;
  if (const auto ok = in_range("nu_max", options.nu_max); !ok) return ok;
  if (options.nu_min > options.nu_max) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("nu_min: {} is above nu_max, {}; swap them", options.nu_min, options.nu_max));
  }
  return {};
}

FamilyFit fit_prepared(Family family, const PreparedSample& sample, const FitOptions& options) {
  if (sample.observed == 0) {
    return without_maximum(
        family, fmt::format("all {:.0f} lengths are at the cap: they say only that answers are at "
                            "least so long, and no law is the likeliest",
                            sample.n));
  }
  switch (family) {
    case Family::kLogT:
      return fit_log_t(sample, options);
    case Family::kLogNormal:
      return fit_log_normal(sample);
    case Family::kGamma:
      return fit_gamma(sample);
    case Family::kWeibull:
      return fit_weibull(sample);
    case Family::kExponential:
      return fit_exponential(sample);
    case Family::kLomax:
      return fit_lomax(sample);
    case Family::kMixture:
      return fit_mixture(sample, options);
    case Family::kBinned:
      break;
  }
  TAILRACE_CHECK(false);
}

}  // namespace

FamilyFit fitted(Family family, const Result<LengthLaw>& law, int parameters, double loglik,
                 double n) {
  if (!law) {
    return without_maximum(family,
                           "the maximum lies beyond what a law may hold: " + law.error().message);
  }
  FamilyFit fit;
  fit.family = family;
  fit.law = *law;
  fit.parameters = parameters;
  fit.loglik = loglik;
  fit.aic = 2 * parameters - 2 * loglik;
  fit.bic = parameters * std::log(n) - 2 * loglik;
  return fit;
}

FamilyFit without_maximum(Family family, std::string why) {
  FamilyFit fit;
  fit.family = family;
  fit.degenerate = std::move(why);
  return fit;
}

std::string commonest_in_words(const PreparedSample& sample) {
  const auto at = std::max_element(sample.counts.begin(), sample.counts.end());
  return fmt::format("{:.0f} of {:.0f} lengths are {:.6g} tokens", *at, sample.n,
                     sample.tokens[static_cast<std::size_t>(at - sample.counts.begin())]);
}

Result<FamilyFit> fit_family(Family family, const LengthSample& sample, const FitOptions& options) {
  const Family one[] = {family};
  auto fits = fit_families(one, sample, options);
  if (!fits) return fail(fits.error());
  return std::move(fits->front());
}

Result<std::vector<FamilyFit>> fit_families(std::span<const Family> families,
                                            const LengthSample& sample, const FitOptions& options) {
  if (const auto ok = check(options); !ok) return fail(ok.error());
  for (const Family family : families) {
    if (family == Family::kBinned) {
      return fail(ErrorCode::kInvalidArgument,
                  "family: bins have no maximum likelihood fit; call fit_bins for them");
    }
  }
  const auto prepared = prepare(sample);
  if (!prepared) return fail(prepared.error());
  std::vector<FamilyFit> fits;
  fits.reserve(families.size());
  for (const Family family : families) fits.push_back(fit_prepared(family, *prepared, options));
  return fits;
}

bool log_t_degenerate(const LengthSample& sample, double nu) {
  const auto prepared = prepare(sample);
  return prepared && prepared->commonest > nu * (prepared->n - prepared->commonest);
}

}  // namespace tailrace::length
