// Which t or normal law on the log scale describes weighted, right-censored logarithms?
//
// The maximum for one nu, for callers that have settled that one exists (fit.cc says when).
#pragma once

#include <span>

#include "length/fit_newton.h"
#include "length/likelihood.h"

namespace tailrace::length {

/// Logarithms with weights; `censored` more are known only to be at least `log_cap`.
struct WeightedLogs {
  std::span<const double> logs;  ///< ascending
  std::span<const double> weights;
  double observed = 0;  ///< sum of the weights
  double censored = 0;
  double log_cap = 0;
};

WeightedLogs weighted(const PreparedSample& sample);

struct LocationScale {
  double mu = 0;
  double sigma = 1;
  double loglik = 0;  ///< of the logarithms: without −ln x
};

/// The highest maximum found from a fixed set of starts. For nu ≥ 1 and nothing censored there is
/// only one; below, one may lie at every cluster, and the tightest of each size are tried. Never
/// below what any start has, nor what the likeliest normal law's location and scale have here.
LocationScale fit_location_scale(const WeightedLogs& data, const LogKernel& kernel);

/// The maximum reached from `start`, within the box of (mu, ln sigma).
LocationScale fit_location_scale_from(const WeightedLogs& data, const LogKernel& kernel,
                                      const LocationScale& start, const Box& box = {},
                                      int most_steps = newton::kMostSteps);

}  // namespace tailrace::length
