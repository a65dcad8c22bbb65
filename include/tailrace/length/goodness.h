// Does this law describe these lengths, and how sure is that?
//
// Kolmogorov-Smirnov and Anderson-Darling distances between a sample and a fitted law, with two
// p-values: the naive one of a law known beforehand, which is too kind because the parameters came
// from the same data, and the one that is right for fitted parameters: from tabulated null
// quantiles for location-scale families (log-t of fixed nu, log-normal, Weibull, exponential), by
// parametric bootstrap for any.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tailrace/core/rng.h"
#include "tailrace/length/fit.h"

namespace tailrace::length {

/// sup |F_n − F|, F continuous, no continuity correction: both sides of every distinct length
/// count. Where some lengths stand at the cap, over (0, cap) only, F_n still counting all n.
/// Lengths are whole numbers, so ties alone make it larger than that of a continuous sample:
/// p-values that know nothing of it (all here but the bootstrap's) are too small where steps are
/// coarse.
double ks_distance(const LengthSample& sample, const LengthLaw& law);
/// P(D ≥ d) for n values from a law known beforehand: exact (Durbin's matrix, as Marsaglia, Tsang
/// and Wang set it up) up to n = 1,000, beyond that Kolmogorov's limit, corrected, to 3e-5. Too
/// large for a fitted law, and for a sample with lengths at the cap.
double ks_p_value(double d, std::size_t n);
/// A² of Anderson and Darling, n ∫ (F_n − F)²/(F(1 − F)) dF; where some lengths stand at the cap,
/// that integral up to the cap (Pettitt and Stephens). Finite also where the law gives a length no
/// chance: F counts as 1e-16 at least, 1 − F as 1e-300.
double ad_distance(const LengthSample& sample, const LengthLaw& law);

/// P(D ≥ d), P(A² ≥ a2) when the family's parameters were fitted by maximum likelihood to the same
/// n complete values; between 0.001 and 0.999, where the tables end. For log-t of nu 3.5,
/// log-normal, Weibull and exponential, whose null laws do not depend on the parameters; nothing
/// for the others, for another nu (or none: fitted too), and for n < 5. Continuous values: see
/// ks_distance on ties.
std::optional<double> ks_p_value_fitted(Family family, std::optional<double> nu, double d,
                                        std::size_t n);
std::optional<double> ad_p_value_fitted(Family family, std::optional<double> nu, double a2,
                                        std::size_t n);

/// Both p-values by samples drawn from the fitted law, rounded up to whole tokens where all lengths
/// are whole, cut at the sample's cap, and fitted again: p = (1 + #{D* ≥ D}) / (resamples + 1). A
/// resample without a maximum is drawn again, so p is among samples that can be fitted, as this one
/// was; nothing where there is no law or three draws in four have no fit. Same rng, same answer.
struct BootstrapP {
  double ks = 0;
  double ad = 0;
};
std::optional<BootstrapP> bootstrap_p_values(const LengthSample& sample, const FamilyFit& fit,
                                             const FitOptions& options, int resamples, Rng rng);

/// What the sample alone says, no law. Moments divide by n; quantiles are linear between order
/// statistics (type 7). A length at the cap counts as it stands, except in the tail index.
struct SampleShape {
  std::size_t n = 0;
  std::size_t n_capped = 0;
  std::size_t distinct = 0;
  double mean = 0;
  double cv = 0;        ///< standard deviation / mean
  double skewness = 0;  ///< 0 for a constant sample
  double p50 = 0, p90 = 0, p99 = 0;
  double top_tenth_share =
      0;  ///< of all tokens, held by the longest n/10 (a part of one counts as part)
  std::optional<double>
      tail_index;  ///< Hill's, over the longest tenth (n ≥ 50); censored at the cap
};
SampleShape describe_sample(const LengthSample& sample);

}  // namespace tailrace::length
