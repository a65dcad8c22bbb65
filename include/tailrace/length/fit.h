// Which law describes these lengths?
//
// Maximum likelihood for one prompt's observed lengths, with right-censoring at the cap: a length
// equal to the cap says only that the answer was at least so long. Every likelihood is that of
// lengths in tokens (with −ln x for the laws on the log scale). A sample without a maximum is
// reported as degenerate, by an exact criterion and never by a failed iteration. Deterministic, any
// thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tailrace/length/length_law.h"

namespace tailrace::length {

/// Lengths of one prompt's answers: finite, > 0. With a cap, none is longer; those equal to it were
/// cut there.
struct LengthSample {
  std::string id;
  std::vector<double> lengths;
  std::optional<double> cap;
};

struct FitOptions {
  /// Of log-t; nothing: free within [nu_min, nu_max], without a maximum where k identical lengths
  /// among n make k/(n − k) > nu_min (docs/decisions/0007).
  std::optional<double> nu = 3.5;
  double nu_min = 1;
  double nu_max = 200;
};

/// One family's fit to one sample.
struct FamilyFit {
  Family family = Family::kLogT;
  std::optional<LengthLaw> law;  ///< nothing where the likelihood has no maximum
  std::string degenerate;        ///< why not; empty otherwise
  bool at_bound = false;         ///< free nu ended at a bound, or Lomax at its exponential limit
  int parameters = 0;            ///< estimated from the sample
  double loglik = 0;             ///< these three only with a law
  double aic = 0;
  double bic = 0;
};

/// Errors: kInvalidArgument naming the length, cap or option and the remedy: no lengths, one that
/// is not finite or not positive, one beyond the cap. Bins are fitted by `fit_bins`. Lomax runs to
/// the exponential law where the sample is no more spread than that: its scale stops at a million
/// means (`at_bound`). A mixture is of two log-t parts (nu as given, 3.5 where it is free), by EM
/// from fixed starts. So that no part settles on a tie, each keeps a weight of at least 0.02 and
/// two lengths, and a sigma of at least 0.02 or a tenth of the sample's standard deviation of
/// ln(tokens), whichever is less; with censored lengths no part lies beyond twice the cap
/// (`at_bound` where one of these holds).
Result<FamilyFit> fit_family(Family family, const LengthSample& sample,
                             const FitOptions& options = {});
/// Several families in the order given, the sample sorted and logged once.
Result<std::vector<FamilyFit>> fit_families(std::span<const Family> families,
                                            const LengthSample& sample,
                                            const FitOptions& options = {});

/// Does the likelihood of a t law on the log scale grow without bound as sigma → 0? Exactly when k
/// identical values among n satisfy k/n > nu/(nu + 1) (Kent and Tyler; 16 of 20 at nu = 3.5). At
/// equality (14 of 18) it is bounded, so false, and yet has no maximum: its supremum lies at sigma
/// = 0, and `fit_family` reports the sample as degenerate. Values at the cap are censored: they
/// count among n but not as identical. False for a sample that `fit_family` would reject.
bool log_t_degenerate(const LengthSample& sample, double nu);

/// Kaplan-Meier masses on log-spaced bins (single tokens first), smoothed by `pseudo_count`
/// observations spread as the log-t fit (or, where that is degenerate, as a narrow one).
Result<LengthLaw> fit_bins(const LengthSample& sample, double pseudo_count = 1);

}  // namespace tailrace::length
