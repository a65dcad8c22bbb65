#include "length/student_t.h"

#include <algorithm>
#include <array>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numbers>

#include "length/boost_policy.h"

namespace tailrace::length {
namespace {

using StudentsT = boost::math::students_t_distribution<double, QuietPolicy>;

// z² must stay finite inside Boost; beyond this the tail is below every use.
constexpr double kFarthest = 1e150;

/// The upper tail at nu = 3.5 without the incomplete beta function. With s = z/√(nu + z²),
/// P(T > z) = c·∫_s^1 (1 − u²)^¾ du = (1 − s²)^1.75·g(s), and g is analytic on [0, 1] (its nearest
/// pole lies at −1), so a polynomial through Chebyshev's points gains a factor of 5.8 a term.
class TieTail {
 public:
  TieTail() {
    std::array<double, kTerms> value{};
    for (std::size_t j = 0; j < kTerms; ++j) {
      const double s = 0.5 + 0.5 * std::cos(angle(j));
      const double left = 1 - s * s;
      const double z = s * std::sqrt(kTieNu / left);
      value[j] = t_survival(z, kTieNu) / std::pow(left, kTieNu / 2);
    }
    // Chebyshev's polynomials in powers of x, by T_k = 2x·T_{k−1} − T_{k−2}.
    std::array<double, kTerms> before{};
    std::array<double, kTerms> basis{1};
    for (std::size_t k = 0; k < kTerms; ++k) {
      double sum = 0;
      for (std::size_t j = 0; j < kTerms; ++j)
        sum += value[j] * std::cos(static_cast<double>(k) * angle(j));
      const double weight = (k == 0 ? 1.0 : 2.0) / kTerms * sum;
      for (std::size_t i = 0; i < kTerms; ++i) powers_[i] += weight * basis[i];
      std::array<double, kTerms> next{};
      for (std::size_t i = 1; i < kTerms; ++i) next[i] = (k == 0 ? 1 : 2) * basis[i - 1];
      for (std::size_t i = 0; i < kTerms; ++i) next[i] -= before[i];
      before = basis;
      basis = next;
    }
  }

  /// P(T > z) for 0 ≤ z ≤ kFarthest.
  double survival(double z) const {
    const double left = kTieNu / (kTieNu + z * z);
    const double root = std::sqrt(left);
    const double x = 2 * z * root / std::sqrt(kTieNu) - 1;
    // Four short chains instead of one long one.
    const double y = x * x;
    const double w = y * y;
    std::array<double, 4> chain{powers_[12], powers_[13], powers_[14], powers_[15]};
    for (const std::size_t k : {std::size_t{8}, std::size_t{4}, std::size_t{0}}) {
      for (std::size_t i = 0; i < 4; ++i) chain[i] = chain[i] * w + powers_[k + i];
    }
    const double g = chain[0] + x * chain[1] + y * (chain[2] + x * chain[3]);
    return left * root * std::sqrt(root) * g;
  }

 private:
  static constexpr std::size_t kTerms = 16;
  static double angle(std::size_t j) {
    return std::numbers::pi * (static_cast<double>(j) + 0.5) / kTerms;
  }
  std::array<double, kTerms> powers_{};
};

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

double tie_t_survival(double z) {
  static const TieTail tail;
  if (z < 0) return 1 - tail.survival(std::min(-z, kFarthest));
  return z > kFarthest ? 0 : tail.survival(z);
}

double t_quantile(double p, double nu) {
  if (p == 0.5) return 0;
  if (nu == kTieNu && p == 0.9) return kTieQuantile90;
  // The upper half from its own tail: 1 − p is exact there, and the answer does not lose digits.
  if (p > 0.5) return boost::math::quantile(boost::math::complement(StudentsT(nu), 1 - p));
  return boost::math::quantile(StudentsT(nu), p);
}

}  // namespace tailrace::length
