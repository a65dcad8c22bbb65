#include "length/support/token_sums.h"

#include <algorithm>
#include <limits>

namespace tailrace::length::testing {

TokenSums::TokenSums(const LengthLaw& law, std::int64_t cap)
    : cap_(cap),
      survival_(static_cast<std::size_t>(cap) + 1),
      rest_(static_cast<std::size_t>(cap) + 1) {
  for (std::int64_t k = cap - 1; k >= 0; --k) {
    const auto i = static_cast<std::size_t>(k);
    survival_[i] = law.survival(static_cast<double>(k));
    rest_[i] = rest_[i + 1] + survival_[i];
  }
}

double TokenSums::mean_residual(std::int64_t age) const {
  const auto a = static_cast<std::size_t>(age);
  return rest_[a] / survival_[a];
}

double TokenSums::gittins_rank(std::int64_t age, std::int64_t quantum) const {
  double best = std::numeric_limits<double>::infinity();
  double served = 0;
  for (std::int64_t b = age + 1; b <= cap_; ++b) {
    served += survival(b - 1);
    const double finished = survival(age) - survival(b);
    if ((b - age >= quantum || b == cap_) && finished > 0) best = std::min(best, served / finished);
  }
  return best;
}

std::int64_t TokenSums::residual_quantile(double p, std::int64_t age) const {
  std::int64_t until = age + 1;
  while (survival(until) > (1 - p) * survival(age)) ++until;
  return until - age;
}

}  // namespace tailrace::length::testing
