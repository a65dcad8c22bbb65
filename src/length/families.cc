#include "length/families.h"

#include <boost/math/distributions/normal.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>

#include "length/quadrature.h"
#include "length/student_t.h"

namespace tailrace::length {
namespace {

namespace bm = boost::math;
using Policy = bm::policies::policy<bm::policies::promote_double<false>>;

double normal_survival(double z) {
  return 0.5 * std::erfc(z / std::sqrt(2.0));
}

double normal_density(double z) {
  constexpr double kInverseRoot2Pi = 0.3989422804014327;
  return kInverseRoot2Pi * std::exp(-0.5 * z * z);
}

}  // namespace

// ---- survival -----------------------------------------------------------------------------------

double survival_of(const LogT& law, double tokens) {
  return t_survival(standardise(law, tokens), law.nu);
}
double survival_of(const LogNormal& law, double tokens) {
  return normal_survival((std::log(tokens) - law.mu) / law.sigma);
}
double survival_of(const Gamma& law, double tokens) {
  return bm::gamma_q(law.shape, tokens / law.scale, Policy());
}
double survival_of(const Weibull& law, double tokens) {
  return std::exp(-std::pow(tokens / law.scale, law.shape));
}
double survival_of(const Exponential& law, double tokens) {
  return std::exp(-tokens / law.scale);
}
double survival_of(const Lomax& law, double tokens) {
  return std::exp(-law.shape * std::log1p(tokens / law.scale));
}

// ---- density ------------------------------------------------------------------------------------

double density_of(const LogT& law, double tokens) {
  return t_density(standardise(law, tokens), law.nu) / law.sigma / tokens;
}
double density_of(const LogNormal& law, double tokens) {
  return normal_density((std::log(tokens) - law.mu) / law.sigma) / law.sigma / tokens;
}
double density_of(const Gamma& law, double tokens) {
  return bm::gamma_p_derivative(law.shape, tokens / law.scale, Policy()) / law.scale;
}
double density_of(const Weibull& law, double tokens) {
  const double r = tokens / law.scale;
  return law.shape / tokens * std::exp(law.shape * std::log(r) - std::pow(r, law.shape));
}
double density_of(const Exponential& law, double tokens) {
  return std::exp(-tokens / law.scale) / law.scale;
}
double density_of(const Lomax& law, double tokens) {
  return law.shape / law.scale * std::exp(-(law.shape + 1) * std::log1p(tokens / law.scale));
}

// ---- quantile -----------------------------------------------------------------------------------

double quantile_of(const LogT& law, double p) {
  return std::exp(law.mu + law.sigma * t_quantile(p, law.nu));
}
double quantile_of(const LogNormal& law, double p) {
  return std::exp(law.mu + law.sigma * bm::quantile(bm::normal_distribution<double, Policy>(), p));
}
double quantile_of(const Gamma& law, double p) {
  return law.scale * bm::gamma_p_inv(law.shape, p, Policy());
}
double quantile_of(const Weibull& law, double p) {
  return law.scale * std::pow(-std::log1p(-p), 1 / law.shape);
}
double quantile_of(const Exponential& law, double p) {
  return -law.scale * std::log1p(-p);
}
double quantile_of(const Lomax& law, double p) {
  return law.scale * std::expm1(-std::log1p(-p) / law.shape);
}

// ---- capped mean --------------------------------------------------------------------------------

double capped_mean_of(const LogT& law, double cap) {
  return capped_mean(law, cap);
}
double capped_mean_of(const LogNormal& law, double cap) {
  const double z = (std::log(cap) - law.mu) / law.sigma;
  return std::exp(law.mu + law.sigma * law.sigma / 2) * normal_survival(law.sigma - z) +
         cap * normal_survival(z);
}
double capped_mean_of(const Gamma& law, double cap) {
  return law.shape * law.scale * bm::gamma_p(law.shape + 1, cap / law.scale, Policy()) +
         cap * survival_of(law, cap);
}
double capped_mean_of(const Weibull& law, double cap) {
  const double a = 1 + 1 / law.shape;
  const double hazard = std::pow(cap / law.scale, law.shape);
  return law.scale * bm::tgamma_lower(a, hazard, Policy()) + cap * std::exp(-hazard);
}
double capped_mean_of(const Exponential& law, double cap) {
  return -law.scale * std::expm1(-cap / law.scale);
}
double capped_mean_of(const Lomax& law, double cap) {
  const double l = std::log1p(cap / law.scale);
  const double a = law.shape - 1;
  return law.scale * (a == 0 ? l : -std::expm1(-a * l) / a);
}

}  // namespace tailrace::length
