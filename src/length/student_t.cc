#include "length/student_t.h"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>

namespace tailrace::length {
namespace {

namespace policies = boost::math::policies;

// Default promotion computes in long double: eight times slower, and other digits on other
// machines.
using Policy = policies::policy<policies::promote_double<false>, policies::promote_float<false>,
                                policies::domain_error<policies::ignore_error>,
                                policies::pole_error<policies::ignore_error>,
                                policies::overflow_error<policies::ignore_error>,
                                policies::underflow_error<policies::ignore_error>,
                                policies::rounding_error<policies::ignore_error>,
                                policies::evaluation_error<policies::ignore_error>>;
using StudentsT = boost::math::students_t_distribution<double, Policy>;

// z² must stay finite inside Boost; beyond this the tail is below every use.
constexpr double kFarthest = 1e150;

}  // namespace

double t_density(double z, double nu) {
  if (std::fabs(z) > kFarthest) return 0;
  return boost::math::pdf(StudentsT(nu), z);
}

double t_survival(double z, double nu) {
  if (z > kFarthest) return 0;
  if (z < -kFarthest) return 1;
  return boost::math::cdf(boost::math::complement(StudentsT(nu), z));
}

double t_quantile(double p, double nu) {
  if (p == 0.5) return 0;
  if (nu == kTieNu && p == 0.9) return kTieQuantile90;
  // The upper half from its own tail: 1 − p is exact there, and the answer does not lose digits.
  if (p > 0.5) return boost::math::quantile(boost::math::complement(StudentsT(nu), 1 - p));
  return boost::math::quantile(StudentsT(nu), p);
}

}  // namespace tailrace::length
