// How far does a random number of tokens fall short of a threshold?
#pragma once

#include <algorithm>
#include <cmath>

#include "queueing/normal_table.h"

namespace tailrace::queueing {

struct Shortfall {
  double mean = 0;   ///< E[max(0, s)]
  double share = 0;  ///< P(s > 0)
};

/// P(s > 0) of a normal s.
inline double share_above(double mean, double sd) {
  if (sd <= 0 || std::abs(mean) > 8 * sd) return mean > 0 ? 1 : 0;
  return normal_below(mean / sd);
}

/// Of a normal s.
inline Shortfall shortfall(double mean, double sd) {
  if (sd <= 0 || std::abs(mean) > 8 * sd) return mean > 0 ? Shortfall{mean, 1} : Shortfall{};
  const auto [share, density] = normal_at(mean / sd);
  return {mean * share + sd * density, share};
}

/// Of a log-normal s with this third central moment, mirrored where that is negative and shifted to
/// its mean. Sums of positive lengths never fall below zero as a normal would.
inline Shortfall shortfall(double mean, double sd, double third) {
  constexpr double kLeastSkew = 1e-3;
  const double skew = sd > 0 ? third / (sd * sd * sd) : 0;
  if (!(std::abs(skew) > kLeastSkew)) return shortfall(mean, sd);
  // The coefficient of variation c of a log-normal whose skewness, c^3 + 3c, is this one.
  const double half = std::abs(skew) / 2;
  const double root = std::cbrt(half + std::sqrt(half * half + 1));
  const double cv = root - 1 / root;
  const double scale = sd / cv;
  const bool mirrored = skew < 0;
  const double edge = mirrored ? scale + mean : scale - mean;  // where s is 0
  if (edge <= 0) return mirrored ? Shortfall{} : Shortfall{mean, 1};
  const double log_sd = std::sqrt(std::log1p(cv * cv));
  const double z = std::log(edge / scale) / log_sd + 0.5 * log_sd;
  if (mirrored) {
    const double share = normal_below(z);
    return {std::max(0.0, edge * share - scale * normal_below(z - log_sd)), share};
  }
  const double share = normal_below(-z);
  return {std::max(0.0, scale * normal_below(log_sd - z) - edge * share), share};
}

/// The third central moment of a log-normal length.
inline double third_moment(double mean, double variance) {
  if (!(mean > 0)) return 0;
  return variance * variance / mean * (3 + variance / (mean * mean));
}

/// Calls add(share, prompts, variance of their number) for a number of prompts with variance mean ·
/// (1 + spread), Poisson where spread is 0: small ones one by one, more of them together.
template <typename Add>
void over_prompts(double mean, double spread, const Add& add) {
  constexpr int kExact = 4;
  double p = std::exp(spread > 1e-9 ? -mean * std::log1p(spread) / spread : -mean);
  double rest = 1, rest_mean = mean, rest_square = mean * (1 + spread) + mean * mean;
  for (int k = 0; k < kExact; ++k) {
    if (p > 1e-12) add(p, static_cast<double>(k), 0.0);
    rest -= p;
    rest_mean -= p * k;
    rest_square -= p * k * k;
    p *= (mean + k * spread) / ((1 + spread) * (k + 1));
  }
  if (rest > 1e-9) {
    const double m = rest_mean / rest;
    add(rest, m, std::max(0.0, rest_square / rest - m * m));
  }
}

}  // namespace tailrace::queueing
