#include "length/likelihood.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>

#include "length/student_t.h"

namespace tailrace::length {
namespace {

namespace bm = boost::math;
using Policy = bm::policies::policy<bm::policies::promote_double<false>>;

constexpr double kLogRoot2Pi = 0.91893853320467274178;
constexpr double kTailStarts = 2;         // of the t law: its continued fraction is fast from here
constexpr double kNormalTailStarts = 20;  // erfc is exact and far from underflow below
constexpr int kNormalTailTerms = 16;      // exact to the last digit at z = 20
constexpr int kMostFractionSteps = 200'000;  // for nu = 1e9 it takes some 20,000

Result<void> check(const LengthSample& sample) {
  const auto bad = [](std::string message) {
    return fail(ErrorCode::kInvalidArgument, std::move(message));
  };
  if (sample.lengths.empty()) return bad("lengths: there are none; give at least one");
  if (sample.cap && !(std::isfinite(*sample.cap) && *sample.cap > 0)) {
    return bad(fmt::format(
        "cap: {} is out of range; give the token limit, a finite number greater than 0, or leave "
        "it out",
        *sample.cap));
  }
  for (std::size_t i = 0; i < sample.lengths.size(); ++i) {
    const double length = sample.lengths[i];
    if (!(std::isfinite(length) && length > 0)) {
      return bad(fmt::format(
          "lengths[{}]: {} is out of range; give finite numbers of tokens greater than 0", i,
          length));
    }
    if (sample.cap && length > *sample.cap) {
      return bad(fmt::format(
          "lengths[{}]: {} is beyond the cap of {}; raise the cap or leave it out, or cut the "
          "length",
          i, length, *sample.cap));
    }
  }
  return {};
}

/// The continued fraction of the incomplete beta function I_x(a, 1/2) (DLMF 8.17.22), by Lentz's
/// method.
double beta_fraction(double a, double x) {
  constexpr double kTiny = 1e-300;
  constexpr double b = 0.5;
  const auto away_from_zero = [](double v) { return std::fabs(v) < kTiny ? kTiny : v; };
  double c = 1;
  double d = 1 / away_from_zero(1 - (a + b) * x / (a + 1));
  double h = d;
  for (int step = 1; step <= kMostFractionSteps; ++step) {
    const double m = step;
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    h *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    const double change = d * c;
    h *= change;
    if (std::fabs(change - 1) < 4e-16) break;
  }
  return h;
}

/// P(Z > z)/density(z) of the normal law, far out: its continued fraction from the far end.
double normal_tail(double z) {
  double below = z;
  for (int term = kNormalTailTerms; term > 0; --term) below = z + term / below;
  return 1 / below;
}

}  // namespace

Result<PreparedSample> prepare(const LengthSample& sample) {
  if (const auto ok = check(sample); !ok) return fail(ok.error());
  PreparedSample out;
  out.n = static_cast<double>(sample.lengths.size());
  std::vector<double> sorted(sample.lengths);
  std::sort(sorted.begin(), sorted.end());
  if (sample.cap) {
    out.cap = *sample.cap;
    out.log_cap = std::log(out.cap);
    const auto first = std::lower_bound(sorted.begin(), sorted.end(), out.cap);
    out.censored = static_cast<double>(sorted.end() - first);
    sorted.erase(first, sorted.end());
  }
  out.observed = static_cast<double>(sorted.size());
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t next = i + 1;
    while (next < sorted.size() && sorted[next] == sorted[i]) ++next;
    const auto count = static_cast<double>(next - i);
    const double log = std::log(sorted[i]);
    if (!out.logs.empty() && out.logs.back() == log) {
      out.counts.back() += count;
    } else {
      out.tokens.push_back(sorted[i]);
      out.logs.push_back(log);
      out.counts.push_back(count);
    }
    out.sum_of_logs += count * log;
    i = next;
  }
  for (const double count : out.counts) out.commonest = std::max(out.commonest, count);
  return out;
}

LogKernel::LogKernel(double nu) : nu_(nu), log_peak_(-kLogRoot2Pi) {
  if (normal()) return;
  // Γ(nu/2)/Γ((nu + 1)/2) as one function: the difference of two logarithms loses digits.
  log_peak_ = -std::log(bm::tgamma_delta_ratio(nu / 2, 0.5, Policy())) -
              0.5 * std::log(nu * 3.14159265358979323846);
  peak_slope_ =
      0.5 * (bm::digamma((nu + 1) / 2, Policy()) - bm::digamma(nu / 2, Policy()) - 1 / nu);
}

LogPoint LogKernel::density(double z) const {
  if (normal()) return {log_peak_ - 0.5 * z * z, -z, -1};
  const double z2 = z * z;
  const double pull = (nu_ + 1) / (nu_ + z2);
  return {log_peak_ - 0.5 * (nu_ + 1) * std::log1p(z2 / nu_), -pull * z,
          -pull * (nu_ - z2) / (nu_ + z2)};
}

double LogKernel::survival_over_density(double z) const {
  if (normal()) return normal_tail(z);
  // P(T > z) = ½·I_x(nu/2, ½) with x = nu/(nu + z²).
  return z / nu_ * beta_fraction(nu_ / 2, nu_ / (nu_ + z * z));
}

LogPoint LogKernel::survival(double z) const {
  const LogPoint at = density(z);
  double log_survival = 0;
  double hazard = 0;
  if (z >= (normal() ? kNormalTailStarts : kTailStarts)) {
    const double ratio = survival_over_density(z);
    log_survival = at.value + std::log(ratio);
    hazard = 1 / ratio;
  } else {
    const double survival = normal() ? 0.5 * std::erfc(z / std::sqrt(2.0)) : t_survival(z, nu_);
    log_survival = std::log(survival);
    hazard = std::exp(at.value) / survival;
  }
  return {log_survival, -hazard, -hazard * (hazard + at.slope)};
}

double LogKernel::density_slope_in_nu(double z) const {
  const double z2 = z * z;
  return peak_slope_ + 0.5 * ((nu_ + 1) * z2 / (nu_ * (nu_ + z2)) - std::log1p(z2 / nu_));
}

}  // namespace tailrace::length
