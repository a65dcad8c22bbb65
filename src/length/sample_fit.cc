#include "tailrace/length/sample_fit.h"

#include <fmt/core.h>

namespace tailrace::length {
namespace {

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
  if (bootstrap > 0) p = bootstrap_p_values(sample, fit, options, bootstrap, rng);
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

}  // namespace

Result<SampleFit> fit_sample(const LengthSample& sample, std::span<const Family> families,
                             const FitOptions& options, int bootstrap, const Rng& rng) {
  Result<std::vector<FamilyFit>> fits = fit_families(families, sample, options);
  if (!fits) return fail(fits.error());
  SampleFit out;
  out.id = sample.id;
  out.shape = describe_sample(sample);
  out.degenerate = log_t_degenerate(sample, options.nu.value_or(options.nu_min));
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
