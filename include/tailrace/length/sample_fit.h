// What do all the families say about one prompt's lengths, side by side?
//
// One call runs what fit.h and goodness.h offer, for one sample: its shape, each family's maximum
// likelihood fit, both distances and every p-value that applies. It is what the document of
// `tailrace fit` is made from. Deterministic by the Rng, any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tailrace/core/rng.h"
#include "tailrace/length/fit.h"
#include "tailrace/length/goodness.h"

namespace tailrace::length {

/// One family's fit and how well it does. Bins have no fitted p-values and, as they are smoothed
/// and no maximum of a likelihood, NaN for AIC and BIC. Only `fit` is there where the likelihood
/// has no maximum.
struct FittedFamily {
  FamilyFit fit;
  std::optional<double> ks_d;         ///< Kolmogorov-Smirnov distance
  std::optional<double> ks_p;         ///< naive: as if the law had been known beforehand
  std::optional<double> ks_p_fitted;  ///< right for fitted parameters: bootstrap, else table
  std::optional<double> ad;           ///< Anderson-Darling A²
  std::optional<double> ad_p_fitted;  ///< bootstrap, else table
  bool by_bootstrap = false;          ///< where the two fitted p-values come from
};

struct SampleFit {
  std::string id;
  SampleShape shape;
  /// `fit_family` finds no log-t law, whether log-t is among `fits` or not: too many identical
  /// lengths (at exactly nu/(nu + 1) of them too), or all at the cap. Other families may still have
  /// been fitted.
  bool degenerate = false;
  std::vector<FittedFamily> fits;  ///< in the order asked for
};

/// `bootstrap`: resamples behind each fitted p-value; 0 asks the tables only. A family's resamples
/// depend on `rng`'s seed, the sample's id and the family, not on what else is asked for.
/// Errors: as fit_family.
Result<SampleFit> fit_sample(const LengthSample& sample, std::span<const Family> families,
                             const FitOptions& options, int bootstrap, const Rng& rng);

}  // namespace tailrace::length
