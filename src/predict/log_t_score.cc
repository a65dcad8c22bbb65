#include "predict/log_t_score.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>

namespace tailrace::predict {
namespace {

using Policy = boost::math::policies::policy<boost::math::policies::promote_double<false>>;
using StudentT = boost::math::students_t_distribution<double, Policy>;

/// Γ((ν+1)/2) / (√(νπ) Γ(ν/2)) at ν = 3.5.
const double kDensityConstant = boost::math::pdf(StudentT(kNu), 0.0);

constexpr double kFarTail = 50;
constexpr double kSurvivalFloor = 1e-300;  // ln must stay finite

}  // namespace

double survival_t(double z) {
  return boost::math::cdf(boost::math::complement(StudentT(kNu), z));
}

double log_density_t(double z) {
  return std::log(kDensityConstant) - 0.5 * (kNu + 1) * std::log1p(z * z / kNu);
}

double quantile_t(double p) {
  return boost::math::quantile(StudentT(kNu), p);
}

Score complete_score(double z) {
  const double weight = (kNu + 1) / (kNu + z * z);
  return {weight * z, weight * z * z - 1, weight};
}

Score censored_score(double z) {
  // Far out the power tail alone is left: hazard nu/z, and S(z) is too small to divide by.
  const double hazard = z > kFarTail ? kNu / z : std::exp(log_density_t(z)) / survival_t(z);
  const double fall = (kNu + 1) * z / (kNu + z * z);  // −d ln f / dz
  return {hazard, z * hazard, std::max(hazard * (hazard - fall), 0.1 * hazard)};
}

double log_likelihood(double z, double sigma, bool censored) {
  if (censored) return std::log(std::max(survival_t(z), kSurvivalFloor));
  return log_density_t(z) - std::log(sigma);
}

double log_length(double tokens) {
  return std::log(std::max(tokens, 1.0) - 0.5);
}

}  // namespace tailrace::predict
