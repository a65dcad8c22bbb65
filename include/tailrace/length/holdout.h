// How wrong is a law about answers that it has not seen?
//
// Fits every law to a random half of one prompt's lengths and judges it by the other half: do its
// high quantiles hold, how far off are its mean and tail mean under a cap, how much chance did it
// give each length. The fitting half's own histogram is judged beside the laws. Deterministic by
// the Rng, any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tailrace/core/rng.h"
#include "tailrace/length/fit.h"

namespace tailrace::length {

/// What one law said about the judged half.
struct HoldoutScore {
  std::string law;             ///< family_name, or "empirical" for the fitting half itself
  double share_above_p90 = 0;  ///< of the judged lengths; 0.1, 0.05 and 0.01 where the law is right
  double share_above_p95 = 0;
  double share_above_p99 = 0;
  double mean_error = 0;       ///< |E[min(X, cap)] / mean of the judged half − 1|
  double tail_mean_error = 0;  ///< the same for CVaR 0.9 and the mean of the longest tenth
  /// ln P(length) a judged value, natural logarithm: the mass of (k − 1, k], at the cap that beyond
  /// cap − 1, never below ln 1e-12. Nothing for the empirical half, which gives an unseen length no
  /// chance, and where a length is not whole.
  std::optional<double> log_score;
};

struct HoldoutResult {
  std::size_t n_fitted = 0;
  std::size_t n_judged = 0;
  double cap = 0;  ///< the sample's, else 4 × the longest length of the fitting half
  std::vector<HoldoutScore> scores;     ///< the empirical half last
  std::vector<std::string> degenerate;  ///< laws without a maximum on the fitting half
};

/// All families of `Family` (bins by fit_bins) and the empirical half. The halves are drawn by
/// `rng`; with an odd count the fitting half is the larger one.
/// Errors: as fit_family; kInvalidArgument for fewer than 4 lengths.
Result<HoldoutResult> judge_held_out(const LengthSample& sample, const FitOptions& options,
                                     Rng rng);

}  // namespace tailrace::length
