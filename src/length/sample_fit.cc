#include "tailrace/length/sample_fit.h"

#include <fmt/core.h>

#include <cmath>
#include <limits>

namespace tailrace::length {
namespace {

/// The law of `fit_bins`, measured as the others are: a density per token, the survival at the cap.
Result<FamilyFit> fit_bins_too(const LengthSample& sample) {
  Result<LengthLaw> law = fit_bins(sample);
  if (!law) return fail(law.error());
  FamilyFit fit;
  fit.family = Family::kBinned;
  for (const double length : sample.lengths) {
    const bool cut = sample.cap && length >= *sample.cap;
    fit.loglik += std::log(cut ? law->survival(length) : law->density(length));
  }
  fit.aic = fit.bic = std::numeric_limits<double>::quiet_NaN();
  fit.law = std::move(*law);
  return fit;
}

/// In the order asked for.
Result<std::vector<FamilyFit>> fit_all(const LengthSample& sample, std::span<const Family> families,
                                       const FitOptions& options) {
  std::vector<Family> likeliest;
  for (const Family family : families) {
    if (family != Family::kBinned) likeliest.push_back(family);
  }
  auto fits = fit_families(likeliest, sample, options);
  if (!fits) return fail(fits.error());
  for (std::size_t i = 0; i < families.size(); ++i) {
    if (families[i] != Family::kBinned) continue;
    auto bins = fit_bins_too(sample);
    if (!bins) return fail(bins.error());
    fits->insert(fits->begin() + static_cast<std::ptrdiff_t>(i), std::move(*bins));
  }
  return fits;
}

/// Everything about one fit that has a law.
FittedFamily measure(const LengthSample& sample, const SampleShape& shape, FamilyFit fit,
                     const FitOptions& options, int bootstrap, const Rng& rng) {
  FittedFamily out;
  const LengthLaw& law = *fit.law;
  const double ks = ks_distance(sample, law);
  const double ad = ad_distance(sample, law);
  out.ks_d = ks;
  out.ks_p = ks_p_value(ks, shape.n);
  out.ad = ad;
  std::optional<BootstrapP> p;
  if (bootstrap > 0 && fit.family != Family::kBinned)
    p = bootstrap_p_values(sample, fit, options, bootstrap, rng);
  if (p) {
    out.ks_p_fitted = p->ks;
    out.ad_p_fitted = p->ad;
    out.by_bootstrap = true;
  } else if (shape.n_capped == 0) {
    out.ks_p_fitted = ks_p_value_fitted(fit.family, options.nu, ks, shape.n);
    out.ad_p_fitted = ad_p_value_fitted(fit.family, options.nu, ad, shape.n);
  }
  out.fit = std::move(fit);
  return out;
}

/// As the log-t fit says, asked for or not.
bool without_log_t(const LengthSample& sample, const std::vector<FamilyFit>& fits,
                   const FitOptions& options) {
  for (const FamilyFit& fit : fits) {
    if (fit.family == Family::kLogT) return !fit.law;
  }
  const Result<FamilyFit> fit = fit_family(Family::kLogT, sample, options);
  return fit && !fit->law;
}

}  // namespace

Result<SampleFit> fit_sample(const LengthSample& sample, std::span<const Family> families,
                             const FitOptions& options, int bootstrap, const Rng& rng) {
  Result<std::vector<FamilyFit>> fits = fit_all(sample, families, options);
  if (!fits) return fail(fits.error());
  SampleFit out;
  out.id = sample.id;
  out.shape = describe_sample(sample);
  out.degenerate = without_log_t(sample, *fits, options);
  for (FamilyFit& fit : *fits) {
    if (!fit.law) {
      out.fits.emplace_back().fit = std::move(fit);
      continue;
    }
    const Rng own = rng.fork(fmt::format("{} {}", family_name(fit.family), sample.id));
    out.fits.push_back(measure(sample, out.shape, std::move(fit), options, bootstrap, own));
  }
  return out;
}

}  // namespace tailrace::length
