// How long does an answer count when it is put in order (TIE's "tail-inflated expectation")?
//
// Score = E[X'] + beta·CVaR_level[X'], X' = min(X, cap) with the request's own cap; smaller goes
// first (TIE, Eq. 11). Deterministic by default. The published estimator, 10,000 random draws for
// each term, is kept for comparison. Beta is the caller's: schedule::adaptive_beta follows the
// queue (Eq. 12).
#pragma once

#include <cstdint>
#include <string_view>

#include "tailrace/core/result.h"
#include "tailrace/core/rng.h"
#include "tailrace/core/strong.h"
#include "tailrace/length/length_law.h"

namespace tailrace::length {

/// TIE's score by quadrature. `cap` > 0, `beta` ≥ 0, 0 < `level` < 1.
double tie_score(const LengthLaw& law, double cap, double beta, double level = 0.9);

struct MonteCarloOptions {
  int draws = 10'000;  ///< for each of the two terms, independent of each other
  /// As the code published with TIE does, against its text: the mean is capped at 2028 and the CVaR
  /// at 2048 whatever the request's cap (and the score is rounded, see `monte_carlo_score`).
  bool released_code = false;
};

/// The two terms by fresh draws from `rng`. CVaR is the mean of the draws strictly above the
/// empirical quantile (linear between order statistics), or the quantile itself where none is.
CappedMoments monte_carlo_moments(const LengthLaw& law, double cap, double level, Rng& rng,
                                  const MonteCarloOptions& options = {});

/// The score from those; with `released_code` rounded to an integer, at least 1.
double monte_carlo_score(const CappedMoments& moments, double beta,
                         const MonteCarloOptions& options);

enum class ScoreMethod { kQuadrature, kTable, kMonteCarlo };

/// "quadrature", "table", "monte-carlo". Errors: kInvalidArgument with the known names.
Result<ScoreMethod> parse_score_method(std::string_view name);

struct ScoreRequest {
  LogT law;
  Tokens cap{1};
  double beta = 0.1;
  double level = 0.9;
  ScoreMethod method = ScoreMethod::kQuadrature;
  std::uint64_t seed = 0;  ///< of the Monte-Carlo draws
  MonteCarloOptions monte_carlo;
};

/// All that is worth knowing about one request's place: the document of `tailrace score`.
struct ScoreReport {
  double mean = 0;
  double var = 0;  ///< value at risk at the level
  double cvar = 0;
  double beta = 0;
  double score = 0;
  double p_cap = 0;    ///< P(X > cap): how likely the limit cuts the answer
  double median = 0;   ///< capped
  double ratio = 0;    ///< E[min(X, cap)] / E[1/Xd]: the order that favours per-token latency
  double gittins = 0;  ///< rank at age 0 with a quantum of 16 tokens
};

/// The largest cap that a double still counts by ones.
inline constexpr Tokens kLargestCap{std::int64_t{1} << 53};
inline constexpr Tokens kScoreQuantum{16};

/// Errors: kInvalidArgument naming the parameter, its value and the remedy.
Result<ScoreReport> score_report(const ScoreRequest& request);

}  // namespace tailrace::length
