#include "length/quadrature.h"

#include <algorithm>
#include <boost/math/quadrature/gauss.hpp>
#include <cmath>
#include <limits>

#include "length/student_t.h"

namespace tailrace::length {
namespace {

// Limits of one panel, found by comparing with 30-digit references (tests/length): the poles of the
// density lie at a distance of pi/2 from the real v axis, and exp(sigma·sinh v) grows doubly fast.
constexpr double kWidestPanel = 6.5;  // in v, for nu ≥ 1 (smaller nu moves the poles closer)
constexpr double kSteepestRise = 14;  // e-folds of exp(sigma·z) gained for z > 0
constexpr double kSteepestFall = 48;  // e-folds of exp(sigma·z) lost for z < 0, and of the density
constexpr double kCutEFolds = 45;     // what lies further left weighs less than 1e-19
constexpr double kNarrowPanel = 1.3;  // in v; 16 nodes suffice there
constexpr int kDeepestSplit = 60;
constexpr double kLogNegligibleMass = 39;  // ln 1e-17

/// The integrand's constants, so that a node costs little more than two exponentials.
class Integrand {
 public:
  explicit Integrand(const LogT& law)
      : mu_(law.mu), sigma_(law.sigma), nu_(law.nu), peak_(t_density(0, law.nu)) {}

  double at(double v) const {
    const double up = std::exp(v);
    const double down = 1 / up;
    const double z = 0.5 * (up - down);
    const double dz_dv = 0.5 * (up + down);
    return std::exp(mu_ + sigma_ * z) * density(z) * dz_dv;
  }

  /// ln of an upper bound of the integral over [lo, hi] in z.
  double log_bound(double lo, double hi) const {
    const double nearest = lo > 0 ? lo : (hi < 0 ? -hi : 0);
    return mu_ + sigma_ * hi - density_e_folds(nearest) + std::log(peak_ * (hi - lo));
  }

  /// How far the density has fallen at z, in e-folds.
  double density_e_folds(double z) const { return 0.5 * (nu_ + 1) * std::log1p(z * z / nu_); }

  double sigma() const { return sigma_; }
  double nu() const { return nu_; }

 private:
  double density(double z) const {
    const double q = 1 + z * z / nu_;
    if (nu_ == kTieNu) return peak_ / (q * q * std::sqrt(std::sqrt(q)));  // q^-2.25 without pow
    return peak_ * std::exp(-density_e_folds(z));
  }

  double mu_, sigma_, nu_, peak_;
};

template <unsigned kNodes>
double gauss(const Integrand& f, double lo, double hi) {
  using Rule = boost::math::quadrature::gauss<double, kNodes>;
  static_assert(kNodes % 2 == 0, "an even rule has no node in the middle");
  const auto& nodes = Rule::abscissa();
  const auto& weights = Rule::weights();
  const double middle = 0.5 * (lo + hi);
  const double half = 0.5 * (hi - lo);
  double sum = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const double step = half * nodes[i];
    sum += weights[i] * (f.at(middle - step) + f.at(middle + step));
  }
  return half * sum;
}

struct Panel {
  double lo_v, hi_v;
  double lo_z, hi_z;
};

bool resolved(const Integrand& f, const Panel& panel) {
  const double growth = f.sigma() * (panel.hi_z - panel.lo_z);
  const double fall = std::fabs(f.density_e_folds(panel.hi_z) - f.density_e_folds(panel.lo_z));
  const double widest = kWidestPanel * std::min(1.0, std::sqrt(f.nu()));
  return panel.hi_v - panel.lo_v <= widest && fall <= kSteepestFall &&
         growth <= (panel.hi_z > 0 ? kSteepestRise : kSteepestFall);
}

double integrate(const Integrand& f, const Panel& panel, double log_negligible, int depth) {
  if (!(panel.hi_v > panel.lo_v)) return 0;
  if (f.log_bound(panel.lo_z, panel.hi_z) < log_negligible) return 0;
  if (depth == 0 || resolved(f, panel)) {
    const bool narrow = panel.hi_v - panel.lo_v <= kNarrowPanel;
    return narrow ? gauss<16>(f, panel.lo_v, panel.hi_v) : gauss<40>(f, panel.lo_v, panel.hi_v);
  }
  const double middle_v = 0.5 * (panel.lo_v + panel.hi_v);
  const double middle_z = std::sinh(middle_v);
  return integrate(f, {panel.lo_v, middle_v, panel.lo_z, middle_z}, log_negligible, depth - 1) +
         integrate(f, {middle_v, panel.hi_v, middle_z, panel.hi_z}, log_negligible, depth - 1);
}

/// Where the left tail may be cut: its weight below is lost in rounding, either because
/// exp(sigma·z) has vanished or because so little probability is left there.
double left_cut(const LogT& law, double hi) {
  const double by_growth = kCutEFolds / law.sigma - std::min(hi, 0.0);
  const double by_mass = std::sqrt(law.nu * std::expm1(2 * kLogNegligibleMass / law.nu));
  return -std::min(by_growth, by_mass);
}

/// A weight in tokens that no answer about min(X, cap) can notice: E[min(X, cap)] ≥ min(e^mu,
/// cap)/2.
double negligible_tokens(const LogT& law, double cap) {
  return 1e-18 * std::min(std::exp(law.mu), cap);
}

}  // namespace

double standardise(const LogT& law, double tokens) {
  // Beyond where the t functions call the tail empty, and finite, so that sinh and asinh stay so.
  constexpr double kFarthest = 1e200;
  return std::clamp((std::log(tokens) - law.mu) / law.sigma, -kFarthest, kFarthest);
}

double partial_moment(const LogT& law, double lo, double hi, double negligible) {
  const Integrand f(law);
  const double from = std::max(lo, left_cut(law, hi));
  if (!(hi > from)) return 0;
  const double log_negligible = negligible > 0 ? std::log(negligible) : -1e308;
  const double from_v = std::asinh(from);
  const double to_v = std::asinh(hi);
  // The rule never straddles 0, where the density peaks.
  if (from >= 0 || hi <= 0) {
    return integrate(f, {from_v, to_v, from, hi}, log_negligible, kDeepestSplit);
  }
  return integrate(f, {from_v, 0, from, 0}, log_negligible, kDeepestSplit) +
         integrate(f, {0, to_v, 0, hi}, log_negligible, kDeepestSplit);
}

double capped_mean(const LogT& law, double cap) {
  const double at_cap = standardise(law, cap);
  const double below = partial_moment(law, -std::numeric_limits<double>::infinity(), at_cap,
                                      negligible_tokens(law, cap));
  return std::min(cap, below + cap * t_survival(at_cap, law.nu));
}

double capped_cvar(const LogT& law, double level, double cap) {
  const double at_cap = standardise(law, cap);
  const double at_level = t_quantile(level, law.nu);
  if (at_level >= at_cap) return cap;
  const double negligible = (1 - level) * negligible_tokens(law, cap);
  const double between = partial_moment(law, at_level, at_cap, negligible);
  const double value_at_risk = std::exp(law.mu + law.sigma * at_level);
  const double cvar = (between + cap * t_survival(at_cap, law.nu)) / (1 - level);
  return std::clamp(cvar, std::min(value_at_risk, cap), cap);
}

}  // namespace tailrace::length
