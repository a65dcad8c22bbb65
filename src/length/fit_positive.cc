// The laws of tokens themselves: exponential, Weibull and Lomax. Each has a scale whose best value
// is a formula once the shape is known, so that one equation in one unknown is left.
#include <algorithm>
#include <cmath>

#include "length/fit_families.h"

namespace tailrace::length {
namespace {

constexpr int kMostSteps = 200;
constexpr double kSmallestStep = 1e-15;  // relative

/// The root of an increasing function between two ends that enclose it: Newton's step where it
/// stays inside, else the middle. `at(x)` gives the value and the slope.
template <class F>
double increasing_root(F&& at, double low, double high, double start) {
  double x = start;
  for (int i = 0; i < kMostSteps; ++i) {
    const auto [value, slope] = at(x);
    if (value == 0) return x;
    (value < 0 ? low : high) = x;
    double next = x - value / slope;
    if (!(next > low && next < high)) next = 0.5 * (low + high);
    const double moved = std::fabs(next - x);
    x = next;
    if (moved <= kSmallestStep * std::fabs(x) || next == low || next == high) break;
  }
  return x;
}

struct ValueAndSlope {
  double value = 0;
  double slope = 0;
};

/// Σ tokens over everything, the censored at the cap, divided by the number observed.
double tokens_per_observed(const PreparedSample& sample) {
  double mean = 0;
  for (std::size_t i = 0; i < sample.tokens.size(); ++i) {
    mean += sample.tokens[i] * (sample.counts[i] / sample.observed);
  }
  if (sample.censored > 0) mean += sample.cap * (sample.censored / sample.observed);
  return mean;
}

// ---- Weibull ------------------------------------------------------------------------------------

/// Σ (x/top)^shape over everything and its first two derivatives in the shape.
struct PowerSums {
  double sum = 0, first = 0, second = 0;
};

PowerSums power_sums(const PreparedSample& sample, double shape, double log_top) {
  PowerSums out;
  const auto add = [&](double log, double weight) {
    const double down = log - log_top;
    const double term = weight * std::exp(shape * down);
    out.sum += term;
    out.first += term * down;
    out.second += term * down * down;
  };
  for (std::size_t i = 0; i < sample.logs.size(); ++i) add(sample.logs[i], sample.counts[i]);
  if (sample.censored > 0) add(sample.log_cap, sample.censored);
  return out;
}

// ---- Lomax --------------------------------------------------------------------------------------

// The shape grows without end where the sample is no more spread than an exponential law: a scale
// so many times the mean is the exponential law to six digits.
constexpr double kLargestLomaxScale = 1e6;  // in tokens per observed length
constexpr double kBelowLeast = 12;  // the profile rises wherever ln scale is so far below ln least
constexpr double kGridStep = 1.5;   // in ln scale: finer than the profile can turn twice
constexpr int kMostGridPoints = 400;

/// The greatest log-likelihood at one ln(scale), over all shapes, but for constants.
struct LomaxProfile {
  double value = 0, slope = 0, curvature = 0;
  double sum = 0;  // Σ ln(1 + x/scale) over everything: observed/sum is the best shape
};

LomaxProfile lomax_profile(const PreparedSample& sample, double log_scale) {
  double all = 0, observed = 0;              // Σ ln(1 + x/scale)
  double all_share = 0, observed_share = 0;  // Σ x/(x + scale)
  double all_turn = 0, observed_turn = 0;
  const auto add = [&](double log, double weight, bool counts_as_observed) {
    const double v = log - log_scale;
    const double e = std::exp(-std::fabs(v));
    const double term = weight * (std::max(v, 0.0) + std::log1p(e));
    const double share = v > 0 ? 1 / (1 + e) : e / (1 + e);
    const double turn = weight * e / ((1 + e) * (1 + e));
    all += term;
    all_share += weight * share;
    all_turn += turn;
    if (!counts_as_observed) return;
    observed += term;
    observed_share += weight * share;
    observed_turn += turn;
  };
  for (std::size_t i = 0; i < sample.logs.size(); ++i) add(sample.logs[i], sample.counts[i], true);
  if (sample.censored > 0) add(sample.log_cap, sample.censored, false);
  const double m = sample.observed;
  const double per = all_share / all;
  return {-m * std::log(all) - m * log_scale - observed, m * per - m + observed_share,
          m * (per * per - all_turn / all) - observed_turn, all};
}

}  // namespace

FamilyFit fit_exponential(const PreparedSample& sample) {
  const double scale = tokens_per_observed(sample);
  return fitted(Family::kExponential, LengthLaw::exponential(scale), 1,
                -sample.observed * (std::log(scale) + 1), sample.n);
}

FamilyFit fit_weibull(const PreparedSample& sample) {
  if (sample.logs.size() == 1 && sample.censored == 0) {
    return without_maximum(Family::kWeibull, commonest_in_words(sample) +
                                                 ": the likelihood grows without bound as the "
                                                 "shape does");
  }
  const double log_top = sample.censored > 0 ? sample.log_cap : sample.logs.back();
  double mean_down = 0;  // of the observed logarithms, below the top
  double square = 0;
  for (std::size_t i = 0; i < sample.logs.size(); ++i) {
    const double down = sample.logs[i] - log_top;
    mean_down += sample.counts[i] / sample.observed * down;
    square += sample.counts[i] / sample.observed * down * down;
  }
  // Increasing in the shape, from −infinity to −mean_down > 0.
  const auto equation = [&](double shape) -> ValueAndSlope {
    const PowerSums s = power_sums(sample, shape, log_top);
    const double mean = s.first / s.sum;
    return {mean - 1 / shape - mean_down, s.second / s.sum - mean * mean + 1 / (shape * shape)};
  };
  double start = 1.2 / std::sqrt(square);
  double low = 0;
  double high = start;
  while (equation(high).value < 0) {
    low = high;
    high *= 4;
  }
  if (low > 0) start = 0.5 * (low + high);
  const double shape = increasing_root(equation, low, high, start);
  const double scale_log =
      log_top + std::log(power_sums(sample, shape, log_top).sum / sample.observed) / shape;
  // Σ (x/scale)^shape is the number observed.
  const double loglik =
      sample.observed * (std::log(shape) - 1 + shape * (mean_down + log_top - scale_log)) -
      sample.sum_of_logs;
  return fitted(Family::kWeibull, LengthLaw::weibull(shape, std::exp(scale_log)), 2, loglik,
                sample.n);
}

FamilyFit fit_lomax(const PreparedSample& sample) {
  const double highest = std::log(tokens_per_observed(sample)) + std::log(kLargestLomaxScale);
  const double lowest = std::min(sample.logs.front(), highest) - kBelowLeast;
  const int points =
      std::clamp(static_cast<int>((highest - lowest) / kGridStep), 8, kMostGridPoints);
  // Every fall after a rise encloses a maximum; the last rise ends at the bound.
  LomaxProfile best;
  double best_at = highest;
  bool at_bound = false;
  bool found = false;
  const auto consider = [&](double log_scale, const LomaxProfile& profile, bool bound) {
    if (found && !(profile.value > best.value)) return;
    best = profile;
    best_at = log_scale;
    at_bound = bound;
    found = true;
  };
  double before = lowest;
  double slope_before = lomax_profile(sample, lowest).slope;
  for (int i = 1; i <= points; ++i) {
    const double here = i == points ? highest : lowest + (highest - lowest) * i / points;
    const LomaxProfile profile = lomax_profile(sample, here);
    if (slope_before > 0 && profile.slope <= 0) {
      const double at = increasing_root(
          [&](double log_scale) -> ValueAndSlope {
            const LomaxProfile p = lomax_profile(sample, log_scale);
            return {-p.slope, -p.curvature};
          },
          before, here, 0.5 * (before + here));
      consider(at, lomax_profile(sample, at), false);
    }
    if (i == points && (profile.slope > 0 || !found)) consider(here, profile, true);
    before = here;
    slope_before = profile.slope;
  }
  const double m = sample.observed;
  const double shape = m / best.sum;
  FamilyFit fit = fitted(Family::kLomax, LengthLaw::lomax(shape, std::exp(best_at)), 2,
                         best.value + m * std::log(m) - m, sample.n);
  fit.at_bound = at_bound && fit.law.has_value();
  return fit;
}

}  // namespace tailrace::length
