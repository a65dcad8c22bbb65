// What does each closed-form family answer?
//
// One overload set per question and family, for 0 < p < 1 and finite tokens > 0 unless said
// otherwise. Every answer is the limit where a double cannot hold its way there: no family yields a
// not-a-number for parameters that LengthLaw accepts. LengthLaw dispatches here, and the sums over
// whole tokens.
#pragma once

#include "length/incomplete_gamma.h"
#include "tailrace/length/length_law.h"

namespace tailrace::length {

// P(X > tokens).
double survival_of(const LogT& law, double tokens);
double survival_of(const LogNormal& law, double tokens);
double survival_of(const Gamma& law, double tokens);
double survival_of(const Weibull& law, double tokens);
double survival_of(const Exponential& law, double tokens);
double survival_of(const Lomax& law, double tokens);

// P(X ≤ tokens), with its own digits where it is small.
double cdf_of(const LogT& law, double tokens);
double cdf_of(const LogNormal& law, double tokens);
double cdf_of(const Gamma& law, double tokens);
double cdf_of(const Weibull& law, double tokens);
double cdf_of(const Exponential& law, double tokens);
double cdf_of(const Lomax& law, double tokens);

double quantile_of(const LogT& law, double p);
double quantile_of(const LogNormal& law, double p);
double quantile_of(const Gamma& law, double p);
double quantile_of(const Weibull& law, double p);
double quantile_of(const Exponential& law, double p);
double quantile_of(const Lomax& law, double p);

// E[min(X, hi); X > lo], 0 ≤ lo ≤ hi: what the answers longer than lo weigh, cut at hi. A sum of
// positive parts, so that far tails keep their digits; E[min(X, cap)] at lo = 0.
double tail_moment_of(const LogT& law, double lo, double hi);
double tail_moment_of(const LogNormal& law, double lo, double hi);
double tail_moment_of(const Gamma& law, double lo, double hi);
double tail_moment_of(const Weibull& law, double lo, double hi);
double tail_moment_of(const Exponential& law, double lo, double hi);
double tail_moment_of(const Lomax& law, double lo, double hi);

/// The first two derivatives of the density's logarithm.
struct LogSlopes {
  double first = 0;
  double second = 0;
};

/// A family's density, with what does not depend on the tokens computed once.
template <class Law>
class Density;

template <>
class Density<LogT> {
 public:
  explicit Density(const LogT& law);
  double operator()(double tokens) const;
  LogSlopes log_slopes(double tokens) const;
  /// Over how many tokens the density changes its shape: to its nearest singularity in the complex
  /// plane, or by an e-fold, whichever comes first.
  double smooth_tokens(double tokens) const;

 private:
  LogT law_;
  double peak_;
};

template <>
class Density<LogNormal> {
 public:
  explicit Density(const LogNormal& law) : law_(law) {}
  double operator()(double tokens) const;
  LogSlopes log_slopes(double tokens) const;
  double smooth_tokens(double tokens) const;

 private:
  LogNormal law_;
};

template <>
class Density<Gamma> {
 public:
  explicit Density(const Gamma& law) : law_(law), standard_(law.shape) {}
  double operator()(double tokens) const { return standard_(tokens / law_.scale) / law_.scale; }
  LogSlopes log_slopes(double tokens) const;
  double smooth_tokens(double tokens) const;

 private:
  Gamma law_;
  GammaDensity standard_;
};

template <>
class Density<Weibull> {
 public:
  explicit Density(const Weibull& law) : law_(law) {}
  double operator()(double tokens) const;
  LogSlopes log_slopes(double tokens) const;
  double smooth_tokens(double tokens) const;

 private:
  Weibull law_;
};

template <>
class Density<Exponential> {
 public:
  explicit Density(const Exponential& law) : law_(law) {}
  double operator()(double tokens) const;
  LogSlopes log_slopes(double tokens) const;
  double smooth_tokens(double tokens) const;

 private:
  Exponential law_;
};

template <>
class Density<Lomax> {
 public:
  explicit Density(const Lomax& law) : law_(law) {}
  double operator()(double tokens) const;
  LogSlopes log_slopes(double tokens) const;
  double smooth_tokens(double tokens) const;

 private:
  Lomax law_;
};

// The hazard, density over survival, far out: where the survival itself has underflowed.
double far_hazard_of(const LogT& law, double tokens);
double far_hazard_of(const LogNormal& law, double tokens);
double far_hazard_of(const Gamma& law, double tokens);
double far_hazard_of(const Weibull& law, double tokens);
double far_hazard_of(const Exponential& law, double tokens);
double far_hazard_of(const Lomax& law, double tokens);

}  // namespace tailrace::length
