// The gamma law: in the logarithm of its mean and of its shape, where a tight sample keeps its
// digits and the two parameters are nearly independent.
#include <fmt/core.h>

#include <algorithm>
#include <boost/math/quadrature/gauss.hpp>
#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <boost/math/special_functions/trigamma.hpp>
#include <cmath>

#include "length/fit_families.h"
#include "length/fit_newton.h"

namespace tailrace::length {
namespace {

namespace bm = boost::math;
using Policy = bm::policies::policy<bm::policies::promote_double<false>>;

constexpr double kAsymptotic =
    12;  // from this shape on Stirling's series is exact to the last digit
constexpr double kLogRoot2Pi = 0.91893853320467274178;
constexpr double kRounding = 1e-15;  // of each term
constexpr double kNegligible = 42;   // e-folds: below 1e-18
constexpr int kMostSteps = 100;
constexpr double kLargestShape = 1e8;  // a coefficient of variation of 1e-4

/// e^v − 1 − v ≥ 0, without loss near 0.
double excess(double v) {
  if (std::fabs(v) > 0.3) return std::expm1(v) - v;
  double term = v * v / 2;
  double sum = term;
  for (int i = 3; i <= 14; ++i) {
    term *= v / i;
    sum += term;
  }
  return sum;
}

/// The log-density of a gamma law of mean 1 at 1, as a function of its shape k:
/// k·ln k − k − ln Γ(k), with its first two derivatives in k.
struct Crest {
  double value = 0, first = 0, second = 0;
};

Crest crest(double k) {
  if (k < kAsymptotic) {
    return {k * std::log(k) - k - bm::lgamma(k, Policy()), std::log(k) - bm::digamma(k, Policy()),
            1 / k - bm::trigamma(k, Policy())};
  }
  const double r = 1 / k;
  const double r2 = r * r;
  const double stirling =
      r * (1.0 / 12 -
           r2 * (1.0 / 360 - r2 * (1.0 / 1260 -
                                   r2 * (1.0 / 1680 - r2 * (1.0 / 1188 - r2 * (691.0 / 360360))))));
  const double first =
      r / 2 +
      r2 * (1.0 / 12 -
            r2 * (1.0 / 120 -
                  r2 * (1.0 / 252 - r2 * (1.0 / 240 - r2 * (1.0 / 132 - r2 * (691.0 / 32760))))));
  const double second =
      -r2 / 2 -
      r2 * r *
          (1.0 / 6 -
           r2 * (1.0 / 30 -
                 r2 * (1.0 / 42 - r2 * (1.0 / 30 - r2 * (5.0 / 66 - r2 * (691.0 / 2730))))));
  return {0.5 * std::log(k) - kLogRoot2Pi - stirling, first, second};
}

// ---- what lies beyond the cap -------------------------------------------------------------------

/// Moments of excess(v) under the density ~ exp(−k·excess(v)), v = ln(x/mean), beyond rho.
struct Beyond {
  double log_mass = 0;  ///< ln of the integral of exp(−k·excess(v))
  double hazard = 0;    ///< the integrand at rho over the integral
  double mean = 0;      ///< of excess(v)
  double variance = 0;
};

/// Where a convex function that rises from 0 at 0 reaches the negligible level: Newton from above.
template <class F>
double reaches_negligible(F&& rise, double from_above) {
  double t = from_above;
  for (int i = 0; i < kMostSteps; ++i) {
    const auto [value, slope] = rise(t);
    const double next = t - (value - kNegligible) / slope;
    if (!(next < t * (1 - 1e-3))) break;  // a little too far out does no harm
    t = next;
  }
  return t;
}

struct Sums {
  double zeroth = 0, first = 0, second = 0;
};

/// Adds the integral over [low, high] of exp(−k·(excess(v) − floor)) times powers of the excess
/// above the floor.
void add_panel(Sums& sums, double k, double floor, double low, double high) {
  using Rule = bm::quadrature::gauss<double, 40>;
  const double middle = 0.5 * (low + high);
  const double half = 0.5 * (high - low);
  const auto add = [&](double v, double weight) {
    const double above = excess(v) - floor;
    const double term = weight * half * std::exp(-k * above);
    sums.zeroth += term;
    sums.first += term * above;
    sums.second += term * above * above;
  };
  const auto& nodes = Rule::abscissa();
  const auto& weights = Rule::weights();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    add(middle + half * nodes[i], weights[i]);
    add(middle - half * nodes[i], weights[i]);
  }
}

Beyond beyond(double k, double rho) {
  struct Rise {
    double value, slope;
  };
  Sums sums;
  const double from = std::max(rho, 0.0);
  const double floor = excess(from);
  const double steep = std::exp(from);
  // excess(from + t) − excess(from) = e^from·(e^t − 1) − t.
  const double far = std::min(std::sqrt(2 * kNegligible / k), 1 + std::log1p(2 * kNegligible / k));
  const double right = reaches_negligible(
      [&](double t) -> Rise {
        return {k * (excess(t) + (steep - 1) * std::expm1(t)), k * (steep * std::exp(t) - 1)};
      },
      far);
  add_panel(sums, k, floor, from, from + right / 2);
  add_panel(sums, k, floor, from + right / 2, from + right);
  if (rho < 0) {
    const double left =
        reaches_negligible([&](double t) -> Rise { return {k * excess(-t), -k * std::expm1(-t)}; },
                           kNegligible / k + 1);
    const double low = std::max(rho, -left);
    add_panel(sums, k, 0, low / 2, 0);
    add_panel(sums, k, 0, low, low / 2);
  }
  const double mean_above = sums.first / sums.zeroth;
  return {std::log(sums.zeroth) - k * floor, std::exp(-k * (excess(rho) - floor)) / sums.zeroth,
          floor + mean_above, sums.second / sums.zeroth - mean_above * mean_above};
}

/// At (ln mean − centre, ln shape).
LocalShape gamma_shape(const PreparedSample& sample, double centre, double a, double b) {
  const double k = std::exp(b);
  double sum_excess = 0, sum_rise = 0, sum_factor = 0;
  for (std::size_t i = 0; i < sample.logs.size(); ++i) {
    const double v = sample.logs[i] - centre - a;
    const double rise = std::expm1(v);
    sum_excess += sample.counts[i] * (std::fabs(v) > 0.3 ? rise - v : excess(v));
    sum_rise += sample.counts[i] * rise;
    sum_factor += sample.counts[i] * (1 + rise);
  }
  const Crest g = crest(k);
  LocalShape out;
  out.value = sample.observed * g.value - k * sum_excess;
  out.rounding = sample.observed * std::fabs(g.value) + k * sum_excess;
  // In (ln mean, k) first.
  double slope_a = k * sum_rise;
  double slope_k = sample.observed * g.first - sum_excess;
  double curve_aa = -k * sum_factor;
  double curve_ak = sum_rise;
  double curve_kk = sample.observed * g.second;
  if (sample.censored > 0) {
    const double rho = sample.log_cap - centre - a;
    const Beyond cut = beyond(k, rho);
    out.value += sample.censored * (g.value + cut.log_mass);
    out.rounding += sample.censored * (std::fabs(g.value) + std::fabs(cut.log_mass));
    slope_a += sample.censored * cut.hazard;
    slope_k += sample.censored * (g.first - cut.mean);
    curve_aa += sample.censored * cut.hazard * (k * std::expm1(rho) - cut.hazard);
    curve_ak += sample.censored * cut.hazard * (cut.mean - excess(rho));
    curve_kk += sample.censored * (g.second + cut.variance);
  }
  out.rounding *= kRounding * std::sqrt(static_cast<double>(sample.logs.size()));
  out.scale_a = 1 / std::sqrt(k);
  out.slope_a = slope_a * out.scale_a;
  out.curve_aa = curve_aa * out.scale_a * out.scale_a;
  out.slope_b = k * slope_k;
  out.curve_ab = k * curve_ak * out.scale_a;
  out.curve_bb = k * k * curve_kk + k * slope_k;
  return out;
}

/// ln k − digamma(k) = s, s > 0: Newton in 1/k (Minka's), from his start.
double shape_for(double s) {
  double k = (3 - s + std::sqrt((s - 3) * (s - 3) + 24 * s)) / (12 * s);
  for (int i = 0; i < kMostSteps; ++i) {
    const Crest g = crest(k);
    const double next = 1 / (1 / k + (s - g.first) / (k * k * -g.second));
    if (!(next > 0)) break;
    const double moved = std::fabs(next / k - 1);
    k = next;
    if (moved < 1e-15) break;
  }
  return k;
}

struct Moments {
  double log_mean = 0;
  double mean_excess = 0;  ///< ln mean − mean of ln
};

/// Of all lengths, the censored as if observed at the cap.
Moments moments(const PreparedSample& sample) {
  const double log_top = sample.censored > 0 ? sample.log_cap : sample.logs.back();
  double mean = sample.censored / sample.n;
  for (std::size_t i = 0; i < sample.logs.size(); ++i) {
    mean += sample.counts[i] / sample.n * std::exp(sample.logs[i] - log_top);
  }
  const double top = sample.censored > 0 ? sample.cap : sample.tokens.back();
  const double mean_tokens = mean * top;
  Moments out;
  out.log_mean = log_top + std::log(mean);
  const auto away = [&](double tokens, double log) {
    const double relative = (tokens - mean_tokens) / mean_tokens;
    return std::fabs(relative) < 0.5 ? std::log1p(relative) : log - out.log_mean;
  };
  for (std::size_t i = 0; i < sample.logs.size(); ++i) {
    out.mean_excess += sample.counts[i] / sample.n * excess(away(sample.tokens[i], sample.logs[i]));
  }
  if (sample.censored > 0) {
    out.mean_excess += sample.censored / sample.n * excess(away(sample.cap, sample.log_cap));
  }
  return out;
}

/// A gamma law so narrow that its survival could not be answered counts as out of reach.
FamilyFit gamma_fit(const PreparedSample& sample, double shape, double scale, double loglik) {
  if (shape > kLargestShape) {
    return without_maximum(
        Family::kGamma,
        fmt::format("the lengths differ so little that the maximum lies at a shape of {:.3g}, "
                    "beyond what a law may hold, {:g}",
                    shape, kLargestShape));
  }
  return fitted(Family::kGamma, LengthLaw::gamma(shape, scale), 2, loglik, sample.n);
}

}  // namespace

FamilyFit fit_gamma(const PreparedSample& sample) {
  const auto boundless = [&] {
    return without_maximum(Family::kGamma, commonest_in_words(sample) +
                                               ": the likelihood grows without bound as the shape "
                                               "does");
  };
  if (sample.logs.size() == 1 && sample.censored == 0) return boundless();
  const Moments rough = moments(sample);
  if (!(rough.mean_excess > 0)) return boundless();  // apart by less than a double can tell
  const double shape = shape_for(rough.mean_excess);
  if (sample.censored == 0) {
    const double loglik =
        sample.observed * (crest(shape).value - shape * rough.mean_excess) - sample.sum_of_logs;
    return gamma_fit(sample, shape, std::exp(rough.log_mean) / shape, loglik);
  }
  const Peak peak =
      climb([&](double a, double b) { return gamma_shape(sample, rough.log_mean, a, b); }, 0,
            std::log(shape));
  return gamma_fit(sample, std::exp(peak.b), std::exp(rough.log_mean + peak.a - peak.b),
                   peak.value - sample.sum_of_logs);
}

}  // namespace tailrace::length
