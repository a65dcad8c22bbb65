#include "length/incomplete_gamma.h"

#include <algorithm>
#include <boost/math/quadrature/gauss.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>
#include <limits>

#include "length/boost_policy.h"
#include "length/monotone_root.h"

namespace tailrace::length {
namespace {

namespace bm = boost::math;

constexpr double kLargestBoostShape = 1e4;   // beyond it not in the tails
constexpr double kLargestBoostMiddle = 1e8;  // beyond it not at all: Boost.Math 1.81 errs at 1e12
// From here on Stirling's series with four terms is exact to a double, and keeps digits that the
// logarithm of a large factorial has lost.
constexpr double kLeastStirlingShape = 50;
constexpr double kTailEFolds = 40;  // where a tail is cut: 4e-18 of it remain

/// ln(1 + d) − d, d > −1.
double log1p_less(double d) {
  if (std::fabs(d) > 0.1) return std::log1p(d) - d;
  double sum = 0;
  for (int n = 18; n >= 2; --n) sum = 1.0 / n - d * sum;  // 1/2 − d/3 + d²/4 − …
  return -d * d * sum;
}

/// ∫ of e^−(rate·t + …) beside x, as a multiple of the density there: upwards (sign 1) or
/// downwards.
double tail_over_density(double a, double x, double sign) {
  const double rate = sign * (x - (a - 1)) / x;  // how steeply the density falls, per unit
  const double bend = (a - 1) / (x * x);
  // Where rate·t + bend·t²/2 reaches the cut.
  const double end = 2 * kTailEFolds / (rate + std::sqrt(rate * rate + 2 * kTailEFolds * bend));
  const double last = sign < 0 ? std::min(end, x) : end;
  const auto fall = [&](double t) {
    const double step = sign * t / x;
    return std::exp((a - 1) * log1p_less(step) + ((a - 1) / x - 1) * sign * t);
  };
  using Rule = bm::quadrature::gauss<double, 40>;
  return Rule::integrate(fall, 0.0, last / 2) + Rule::integrate(fall, last / 2, last);
}

/// Q or P (sign 1 or −1) beside the middle of a very large shape: Temme's uniform expansion, of
/// which the first term is left.
double middle(double a, double x, double sign) {
  const double d = (x - a) / a;
  const double half_square = -log1p_less(d);
  const double eta = std::copysign(std::sqrt(2 * half_square), d);
  const double correction = -1.0 / 3 + eta * (1.0 / 12 - eta * (2.0 / 135 - eta / 864));
  constexpr double kTwoPi = 6.2831853071795864769;
  return 0.5 * std::erfc(sign * eta * std::sqrt(a / 2)) +
         sign * std::exp(-a * half_square) / std::sqrt(kTwoPi * a) * correction;
}

/// Is x so far from the middle of a large shape that Boost would sum a series?
bool far_out(double a, double x) {
  return a > kLargestBoostShape && (x - a) * (x - a) >= 20 * a;
}

}  // namespace

double gamma_lower(double a, double x) {
  if (!(x > 0)) return 0;
  if (std::isinf(x)) return 1;
  if (!far_out(a, x)) {
    return a > kLargestBoostMiddle ? middle(a, x, -1) : bm::gamma_p(a, x, QuietPolicy());
  }
  if (x > a) return 1 - gamma_upper(a, x);
  return GammaDensity(a)(x) * tail_over_density(a, x, -1);
}

double gamma_upper(double a, double x) {
  if (!(x > 0)) return 1;
  if (std::isinf(x)) return 0;
  if (!far_out(a, x)) {
    return a > kLargestBoostMiddle ? middle(a, x, 1) : bm::gamma_q(a, x, QuietPolicy());
  }
  if (x < a) return 1 - gamma_lower(a, x);
  return GammaDensity(a)(x) * tail_over_density(a, x, 1);
}

GammaDensity::GammaDensity(double a) : a_(a) {
  if (a < kLeastStirlingShape) {
    log_norm_ = -bm::lgamma(a, QuietPolicy());
  } else {
    const double r = 1 / (a * a);
    constexpr double kLogTwoPi = 1.8378770664093454836;
    log_norm_ = 0.5 * (std::log(a) - kLogTwoPi) -
                (1.0 / 12 - r * (1.0 / 360 - r * (1.0 / 1260 - r / 1680))) / a;
  }
}

double GammaDensity::operator()(double x) const {
  if (std::isinf(x)) return 0;
  if (a_ < kLeastStirlingShape) return std::exp((a_ - 1) * std::log(x) - x + log_norm_);
  const double d = (x - a_) / a_;
  return std::exp(a_ * (d > -1 ? log1p_less(d) : -std::numeric_limits<double>::infinity()) +
                  log_norm_) /
         x;
}

double gamma_quantile(double p, double a) {
  // Near 0, P(a, x) = x^a/Γ(a + 1)·(1 − x·a/(a + 1) + …): for small shapes most of the law is
  // there.
  const double log_gamma = a < 1e3 ? bm::lgamma(a + 1, QuietPolicy()) : 0;
  const double log_least = (std::log(p) + log_gamma) / a;
  constexpr double kNegligible = -40;  // ln of an x that no longer bends the power law
  if (a < 1e3 && log_least < kNegligible) return std::exp(log_least);

  // Wilson and Hilferty's cube of a normal, where it makes sense.
  const double z = -std::sqrt(2.0) * bm::erfc_inv(2 * p, QuietPolicy());
  const double cube = 1 - 1 / (9 * a) + z / (3 * std::sqrt(a));
  const double guess =
      a > 0.5 && cube > 0.1 ? std::log(a) + 3 * std::log(cube) : std::max(log_least, -1.0);
  const GammaDensity density(a);
  const bool lower = p < 0.5;
  const double target = lower ? std::log(p) : std::log1p(-p);
  // ln P or −ln Q over u = ln x: both rise.
  const auto excess = [&](double u) {
    const double x = std::exp(u);
    const double tail = lower ? gamma_lower(a, x) : gamma_upper(a, x);
    const double slope = x * density(x) / tail;
    return lower ? ValueAndSlope{std::log(tail) - target, slope}
                 : ValueAndSlope{target - std::log(tail), slope};
  };
  const double far = std::log(a + 50 * std::sqrt(a) + 800);
  return std::exp(monotone_root(excess, std::min(log_least, far) - 1, far, guess));
}

}  // namespace tailrace::length
