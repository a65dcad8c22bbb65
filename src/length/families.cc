#include "length/families.h"

#include <algorithm>
#include <boost/math/special_functions/erf.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>

#include "length/boost_policy.h"
#include "length/quadrature.h"
#include "length/student_t.h"

namespace tailrace::length {
namespace {

constexpr double kRoot2 = 1.4142135623730950488;

// ---- the normal law ----

double normal_survival(double z) {
  return 0.5 * std::erfc(z / kRoot2);
}

double normal_density(double z) {
  constexpr double kInverseRoot2Pi = 0.3989422804014326779;
  return kInverseRoot2Pi * std::exp(-0.5 * z * z);
}

double normal_quantile(double p) {
  if (p > 0.5) return kRoot2 * boost::math::erfc_inv(2 * (1 - p), QuietPolicy());
  return -kRoot2 * boost::math::erfc_inv(2 * p, QuietPolicy());
}

/// Mills' ratio: survival over density of the normal law at t ≥ 0, where either may underflow.
double mills_ratio(double t) {
  if (t < 10) {
    constexpr double kRootHalfPi = 1.2533141373155002512;
    return kRootHalfPi * std::exp(0.5 * t * t) * std::erfc(t / kRoot2);
  }
  double fraction = t;  // Laplace's continued fraction, 1/(t + 1/(t + 2/(t + …)))
  for (int i = 24; i >= 1; --i) fraction = t + i / fraction;
  return 1 / fraction;
}

/// (ln tokens − mu)/sigma, finite for tokens ≥ 0.
double z_of(const LogNormal& law, double tokens) {
  return standardise({law.mu, law.sigma, 1}, tokens);
}

/// ∫ of x·f(x) below `tokens`. e^(mu + sigma²/2), which may overflow, stays inside the density:
/// tokens·φ(z) = e^(mu + sigma²/2)·φ(z − sigma).
double moment_below(const LogNormal& law, double tokens, double z) {
  if (z < law.sigma) return tokens * normal_density(z) * mills_ratio(law.sigma - z);
  return std::exp(law.mu + 0.5 * law.sigma * law.sigma) * normal_survival(law.sigma - z);
}

/// The same above it, for z ≥ sigma.
double moment_above(const LogNormal& law, double tokens, double z) {
  const double density = normal_density(z);
  return density > 0 ? tokens * density * mills_ratio(z - law.sigma) : 0;
}

// ---- powers of a ratio, for Weibull and Lomax ----

/// ln(tokens/scale), exact to its last digits also beside the scale.
double log_ratio(double tokens, double scale) {
  const double excess = (tokens - scale) / scale;
  return std::fabs(excess) < 0.5 ? std::log1p(excess) : std::log(tokens / scale);
}

/// The cumulated hazard, (tokens/scale)^shape.
double hazard_up_to(const Weibull& law, double tokens) {
  return tokens > 0 ? std::exp(law.shape * log_ratio(tokens, law.scale)) : 0;
}

/// scale·Γ(1 + 1/shape), where that is of a size with a length in tokens.
double mean_of(const Weibull& law) {
  const double a = 1 + 1 / law.shape;
  return std::exp(std::log(law.scale) + boost::math::lgamma(a, QuietPolicy()));
}

/// ∫ of x·f(x) below `tokens`, scale·γ(1 + 1/shape, h): as a multiple of tokens unless the mean is
/// of their size, because Γ and scale alone may overflow.
double moment_below(const Weibull& law, double tokens, double h) {
  const double a = 1 + 1 / law.shape;
  if (h < 1 || h < 0.5 * a) {
    double term = 1 / a;
    double sum = term;
    for (int n = 1; term > 1e-17 * sum; ++n) {
      term *= h / (a + n);
      sum += term;
    }
    return tokens * h * std::exp(-h) * sum;
  }
  if (h < a) return tokens * std::exp(-h) * gamma_lower(a, h) / GammaDensity(a)(h);
  return mean_of(law) * gamma_lower(a, h);
}

/// The same above it, for h ≥ 1 + 1/shape.
double moment_above(const Weibull& law, double tokens, double h) {
  const double a = 1 + 1 / law.shape;
  const double density = GammaDensity(a)(h);
  return density > 0 ? tokens * std::exp(-h) * gamma_upper(a, h) / density : 0;
}

/// (1 − e^(−a·l))/a, and its limit at a = 0.
double decayed(double a, double l) {
  return a == 0 ? l : -std::expm1(-a * l) / a;
}

/// The smallest of the lengths over which a density with these slopes bends or falls.
double bend_tokens(const LogSlopes& slopes, double most) {
  const double e_fold = 2 / std::fabs(slopes.first);
  const double bend = 1 / std::sqrt(std::fabs(slopes.second));
  return std::min({most, e_fold, bend});
}

}  // namespace

// ---- log-t --------------------------------------------------------------------------------------

double survival_of(const LogT& law, double tokens) {
  return t_survival(standardise(law, tokens), law.nu);
}

double cdf_of(const LogT& law, double tokens) {
  return t_survival(-standardise(law, tokens), law.nu);
}

double quantile_of(const LogT& law, double p) {
  return std::exp(law.mu + law.sigma * t_quantile(p, law.nu));
}

double tail_moment_of(const LogT& law, double lo, double hi) {
  if (!(lo > 0)) return capped_mean(law, hi);
  const double z = standardise(law, lo);
  const double negligible = 1e-18 * lo * t_survival(z, law.nu);
  return partial_moment(law, z, standardise(law, hi), negligible) + hi * survival_of(law, hi);
}

Density<LogT>::Density(const LogT& law) : law_(law), peak_(t_density(0, law.nu)) {}

double Density<LogT>::operator()(double tokens) const {
  const double z = standardise(law_, tokens);
  const double q = z * z / law_.nu;
  const double t = law_.nu == kTieNu ? 1 / ((1 + q) * (1 + q) * std::sqrt(std::sqrt(1 + q)))
                                     : std::exp(-0.5 * (law_.nu + 1) * std::log1p(q));
  return peak_ * t / law_.sigma / tokens;
}

LogSlopes Density<LogT>::log_slopes(double tokens) const {
  const double y = std::log(tokens) - law_.mu;
  const double spread = law_.nu * law_.sigma * law_.sigma;
  const double q = spread + y * y;
  const double square = q * q;
  if (!(square > 0 && std::isfinite(square))) return {-1 / tokens, 1 / tokens / tokens};
  const double rate = -(law_.nu + 1) * y / q;
  const double bend = -(law_.nu + 1) * (spread - y * y) / square;
  return {(rate - 1) / tokens, (bend - (rate - 1)) / tokens / tokens};
}

double Density<LogT>::smooth_tokens(double tokens) const {
  const double y = std::log(tokens) - law_.mu;
  // On the log scale the poles lie at mu ± i·sigma·sqrt(nu).
  const double to_pole = std::hypot(law_.sigma * std::min(1.0, std::sqrt(law_.nu)), y);
  const double e_fold =
      2 * (law_.nu * law_.sigma * law_.sigma + y * y) / ((law_.nu + 1) * std::fabs(y));
  return tokens * std::min({1.0, to_pole, e_fold});
}

double far_hazard_of(const LogT& law, double tokens) {
  const double y = std::log(tokens) - law.mu;
  return law.nu * y / (tokens * (law.nu * law.sigma * law.sigma + y * y));
}

// ---- log-normal ---------------------------------------------------------------------------------

double survival_of(const LogNormal& law, double tokens) {
  return normal_survival(z_of(law, tokens));
}

double cdf_of(const LogNormal& law, double tokens) {
  return normal_survival(-z_of(law, tokens));
}

double quantile_of(const LogNormal& law, double p) {
  return std::exp(law.mu + law.sigma * normal_quantile(p));
}

double tail_moment_of(const LogNormal& law, double lo, double hi) {
  const double from = z_of(law, lo);
  const double to = z_of(law, hi);
  const double between =
      from >= law.sigma ? moment_above(law, lo, from) - moment_above(law, hi, to)
                        : moment_below(law, hi, to) - (lo > 0 ? moment_below(law, lo, from) : 0);
  return std::max(0.0, between) + hi * normal_survival(to);
}

double Density<LogNormal>::operator()(double tokens) const {
  return normal_density(z_of(law_, tokens)) / law_.sigma / tokens;
}

LogSlopes Density<LogNormal>::log_slopes(double tokens) const {
  const double rate = -z_of(law_, tokens) / law_.sigma;
  const double bend = -1 / law_.sigma / law_.sigma;
  return {(rate - 1) / tokens, (bend - (rate - 1)) / (tokens * tokens)};
}

double Density<LogNormal>::smooth_tokens(double tokens) const {
  const double z = std::fabs(z_of(law_, tokens));
  return tokens * std::min({1.0, law_.sigma * std::hypot(1, z), 2 * law_.sigma / z});
}

double far_hazard_of(const LogNormal& law, double tokens) {
  return z_of(law, tokens) / law.sigma / tokens;
}

// ---- gamma --------------------------------------------------------------------------------------

double survival_of(const Gamma& law, double tokens) {
  return gamma_upper(law.shape, tokens / law.scale);
}

double cdf_of(const Gamma& law, double tokens) {
  return gamma_lower(law.shape, tokens / law.scale);
}

double quantile_of(const Gamma& law, double p) {
  return law.scale * gamma_quantile(p, law.shape);
}

double tail_moment_of(const Gamma& law, double lo, double hi) {
  const double a = law.shape + 1;
  const double from = lo / law.scale;
  const double to = hi / law.scale;
  const double above = gamma_upper(a, from);
  const double between =
      above < 0.5 ? above - gamma_upper(a, to) : gamma_lower(a, to) - gamma_lower(a, from);
  return law.shape * law.scale * std::max(0.0, between) + hi * gamma_upper(law.shape, to);
}

LogSlopes Density<Gamma>::log_slopes(double tokens) const {
  const double by_power = (law_.shape - 1) / tokens;
  return {by_power - 1 / law_.scale, -by_power / tokens};
}

double Density<Gamma>::smooth_tokens(double tokens) const {
  return bend_tokens(log_slopes(tokens), tokens);
}

double far_hazard_of(const Gamma& law, double tokens) {
  const double y = tokens / law.scale;
  return (y - law.shape + 1) / y / law.scale;
}

// ---- Weibull ------------------------------------------------------------------------------------

double survival_of(const Weibull& law, double tokens) {
  return std::exp(-hazard_up_to(law, tokens));
}

double cdf_of(const Weibull& law, double tokens) {
  return -std::expm1(-hazard_up_to(law, tokens));
}

double quantile_of(const Weibull& law, double p) {
  return law.scale * std::pow(-std::log1p(-p), 1 / law.shape);
}

double tail_moment_of(const Weibull& law, double lo, double hi) {
  const double from = hazard_up_to(law, lo);
  const double to = hazard_up_to(law, hi);
  const double between =
      from >= 1 + 1 / law.shape
          ? moment_above(law, lo, from) - moment_above(law, hi, to)
          : moment_below(law, hi, to) - (lo > 0 ? moment_below(law, lo, from) : 0);
  return std::max(0.0, between) + hi * std::exp(-to);
}

double Density<Weibull>::operator()(double tokens) const {
  const double log_h = law_.shape * log_ratio(tokens, law_.scale);
  return law_.shape / tokens * std::exp(log_h - std::exp(log_h));
}

LogSlopes Density<Weibull>::log_slopes(double tokens) const {
  const double h = hazard_up_to(law_, tokens);
  const double k = law_.shape;
  return {(k - 1 - k * h) / tokens, -(k - 1) * (1 + k * h) / (tokens * tokens)};
}

double Density<Weibull>::smooth_tokens(double tokens) const {
  return bend_tokens(log_slopes(tokens), tokens);
}

double far_hazard_of(const Weibull& law, double tokens) {
  return law.shape / tokens * hazard_up_to(law, tokens);
}

// ---- exponential --------------------------------------------------------------------------------

double survival_of(const Exponential& law, double tokens) {
  return std::exp(-tokens / law.scale);
}

double cdf_of(const Exponential& law, double tokens) {
  return -std::expm1(-tokens / law.scale);
}

double quantile_of(const Exponential& law, double p) {
  return -law.scale * std::log1p(-p);
}

double tail_moment_of(const Exponential& law, double lo, double hi) {
  return std::exp(-lo / law.scale) * (lo - law.scale * std::expm1(-(hi - lo) / law.scale));
}

double Density<Exponential>::operator()(double tokens) const {
  return std::exp(-tokens / law_.scale) / law_.scale;
}

LogSlopes Density<Exponential>::log_slopes(double) const {
  return {-1 / law_.scale, 0};
}

double Density<Exponential>::smooth_tokens(double) const {
  return 2 * law_.scale;
}

double far_hazard_of(const Exponential& law, double) {
  return 1 / law.scale;
}

// ---- Lomax --------------------------------------------------------------------------------------

double survival_of(const Lomax& law, double tokens) {
  return std::exp(-law.shape * std::log1p(tokens / law.scale));
}

double cdf_of(const Lomax& law, double tokens) {
  return -std::expm1(-law.shape * std::log1p(tokens / law.scale));
}

double quantile_of(const Lomax& law, double p) {
  return law.scale * std::expm1(-std::log1p(-p) / law.shape);
}

double tail_moment_of(const Lomax& law, double lo, double hi) {
  const double further = std::log1p((hi - lo) / (law.scale + lo));
  const double alive = lo > 0 ? survival_of(law, lo) : 1;
  return alive * (lo + (law.scale + lo) * decayed(law.shape - 1, further));
}

double Density<Lomax>::operator()(double tokens) const {
  return law_.shape / law_.scale * std::exp(-(law_.shape + 1) * std::log1p(tokens / law_.scale));
}

LogSlopes Density<Lomax>::log_slopes(double tokens) const {
  const double x = law_.scale + tokens;
  return {-(law_.shape + 1) / x, (law_.shape + 1) / (x * x)};
}

double Density<Lomax>::smooth_tokens(double tokens) const {
  return (law_.scale + tokens) * std::min(1.0, 2 / (law_.shape + 1));
}

double far_hazard_of(const Lomax& law, double tokens) {
  return law.shape / (law.scale + tokens);
}

}  // namespace tailrace::length
