// What lies below and above a point of the standard gamma law, for any shape?
//
// P(a, x) and Q(a, x) = 1 − P, each with its own digits, the density and the quantile. Boost.Math
// answers up to a shape of 10,000; beyond it its series would need ever more terms (millions at
// 1e12), so the tails are integrated instead. Never throws. Arguments are trusted: 1e-6 ≤ a ≤ 1e13,
// x ≥ 0 (infinity allowed), 0 < p < 1.
#pragma once

namespace tailrace::length {

double gamma_lower(double a, double x);  ///< P(a, x), regularised
double gamma_upper(double a, double x);  ///< Q(a, x)
/// Where P(a, x) = p; 0 where that is less than the least double.
double gamma_quantile(double p, double a);

/// x^(a−1)·e^−x/Γ(a), with what does not depend on x computed once.
class GammaDensity {
 public:
  explicit GammaDensity(double a);
  double operator()(double x) const;  ///< x > 0

 private:
  double a_;
  double log_norm_;  ///< −ln Γ(a), or what Stirling's form leaves of it
};

}  // namespace tailrace::length
