// How long will an answer be, as a distribution?
//
// A LengthLaw is the law of one request's output length. It answers the questions that scheduling,
// simulation and capacity ask. Two conventions, tied by a test: `survival`, `quantile`,
// `capped_mean`, `capped_cvar` and scores take X' = min(X, cap) as continuous, with an atom at the
// cap and no floor; `mean_residual`, `gittins_rank` and `mean_inverse` use whole tokens Xd =
// min(cap, max(1, ceil X)). The family is a closed set; log-t (TIE, facts: Student-t on the log
// scale) is the first of it. Values, immutable, any thread.
#pragma once

#include "tailrace/core/result.h"
#include "tailrace/core/strong.h"

namespace tailrace::length {

/// ln X = mu + sigma·T with T Student-t of nu degrees of freedom (TIE, Eq. 1; nu = 3.5 there).
struct LogT {
  double mu = 0;
  double sigma = 1;
  double nu = 3.5;

  friend bool operator==(const LogT&, const LogT&) = default;
};

/// A law's answers at one cap, the ones TIE's score needs, computed together.
struct CappedMoments {
  double mean = 0;  ///< E[min(X, cap)]
  double cvar = 0;  ///< E[min(X, cap) | the worst 1 − level]
};

class LengthLaw {
 public:
  /// Errors: kInvalidArgument naming the parameter when it is not finite or out of range
  /// (sigma > 0, nu ≥ 0.1; mu within ±700 so that exp stays finite).
  static Result<LengthLaw> log_t(double mu, double sigma, double nu = 3.5);

  double survival(double tokens) const;  ///< P(X > tokens); 1 for tokens ≤ 0
  double quantile(double p) const;       ///< of the uncapped law, 0 < p < 1
  double density(double tokens) const;
  double median() const { return quantile(0.5); }

  /// Exact path for any cap > 0: deterministic quadrature (relative error ≤ 1e-11 against 30-digit
  /// references).
  double capped_mean(double cap) const;
  double capped_var(double level, double cap) const;  ///< value at risk: min(quantile(level), cap)
  double capped_cvar(double level, double cap) const;
  /// Fast path for level 0.9 from the precomputed table (relative error ≤ 1e-5, ~0.1 µs); falls
  /// back to the exact path outside the table or for another nu.
  CappedMoments capped_moments_fast(double cap) const;
  /// Builds that table (about 0.2 s, once per process, thread-safe), so that no request waits for
  /// it.
  static void warm_up();

  /// Whole-token questions, exact path (some 50 to 100 µs, whatever the cap). `age` tokens are
  /// already generated (0 ≤ age < cap). Where P(X > age) underflows the tail's own decay answers,
  /// roughly.
  double mean_residual(Tokens age, Tokens cap) const;  ///< E[Xd − age | Xd > age]
  double mean_inverse(Tokens cap) const;               ///< E[1/Xd]
  /// Gittins rank (smaller goes first): the least, over q ≥ quantum, of expected service within the
  /// next q tokens divided by the probability of finishing in them.
  double gittins_rank(Tokens age, Tokens cap, Tokens quantum) const;

  const LogT& as_log_t() const { return log_t_; }

  friend bool operator==(const LengthLaw&, const LengthLaw&) = default;

 private:
  explicit LengthLaw(LogT law) : log_t_(law) {}
  LogT log_t_;
};

}  // namespace tailrace::length
