#include "tune/chi_square.h"

#include <boost/math/distributions/chi_squared.hpp>
#include <cmath>

namespace tailrace::tune {

double chi_square_quantile(double probability, int freedom) {
  if (freedom == 2) return -2 * std::log1p(-probability);
  namespace policies = boost::math::policies;
  using Policy = policies::policy<policies::promote_double<false>>;
  return quantile(boost::math::chi_squared_distribution<double, Policy>(freedom), probability);
}

}  // namespace tailrace::tune
