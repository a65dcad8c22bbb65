// What do a sample's lengths say about a law's parameters?
//
// A sample sorted and logged once, and the log-density and log-survival of the standard laws on the
// log scale with their slopes, good to the far tails. Everything that fits shares these.
#pragma once

#include <limits>
#include <vector>

#include "tailrace/length/fit.h"

namespace tailrace::length {

inline constexpr double kNormalNu = std::numeric_limits<double>::infinity();

/// Distinct lengths in ascending order, told apart by their logarithm: two lengths whose logarithms
/// are the same double count as identical.
struct PreparedSample {
  std::vector<double> tokens;
  std::vector<double> logs;    ///< of `tokens`, strictly ascending
  std::vector<double> counts;  ///< whole numbers ≥ 1
  double n = 0;                ///< all lengths, the censored ones too
  double observed = 0;         ///< those below the cap: the sum of `counts`
  double censored = 0;         ///< those at the cap
  double cap = 0;              ///< tokens; meaningful where something is censored
  double log_cap = 0;
  double sum_of_logs = 0;  ///< over the observed
  double commonest = 0;    ///< the largest of `counts`; 0 where nothing is observed
};

/// Errors: kInvalidArgument, as fit_family says.
Result<PreparedSample> prepare(const LengthSample& sample);

/// A log-density or log-survival at a standardised z, with its first two derivatives in z.
struct LogPoint {
  double value = 0;
  double slope = 0;
  double curvature = 0;
};

/// Student's t with nu degrees of freedom; kNormalNu: the normal law.
class LogKernel {
 public:
  explicit LogKernel(double nu);

  double nu() const { return nu_; }
  bool normal() const { return nu_ == kNormalNu; }
  LogPoint density(double z) const;
  LogPoint survival(double z) const;  ///< ln P(T > z): never −infinity for a finite z
  /// How strongly z pulls in iteratively reweighted least squares: (nu + 1)/(nu + z²).
  double weight(double z) const { return normal() ? 1 : (nu_ + 1) / (nu_ + z * z); }
  /// d/d(nu) of the log-density; not for the normal law.
  double density_slope_in_nu(double z) const;

 private:
  double survival_over_density(double z) const;  // for z ≥ 2

  double nu_;
  double log_peak_;        // the log-density at 0
  double peak_slope_ = 0;  // d/d(nu) of it
};

}  // namespace tailrace::length
