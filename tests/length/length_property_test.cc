// What must hold for every law, not only for the ones we thought of.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tailrace/length/tie_score.h"

namespace tailrace::length {
namespace {

// The quadrature's own error: comparisons of two of its answers may be off by it.
constexpr double kSlack = 1e-10;

double real_in(double lo, double hi) {
  const auto step = *rc::gen::inRange<std::int64_t>(0, 1'000'001);
  return lo + (hi - lo) * static_cast<double>(step) / 1e6;
}

LogT any_law() {
  const double sigma = std::exp(real_in(std::log(1e-3), std::log(50)));
  const double nu = *rc::gen::element(0.5, 1.0, 3.5, 3.5, 3.5, 10.0, 200.0);
  return {real_in(-20, 20), sigma, nu};
}

LengthLaw make(const LogT& law) {
  return LengthLaw::log_t(law.mu, law.sigma, law.nu).value();
}

double any_cap() {
  return std::round(std::exp(real_in(0, std::log(1e9))));
}

void show(const LogT& law, double cap) {
  RC_LOG() << "mu " << law.mu << " sigma " << law.sigma << " nu " << law.nu << " cap " << cap
           << "\n";
}

RC_GTEST_PROP(LengthLawProperty, MeanVarCvarAndCapAreOrdered, ()) {
  const LogT t = any_law();
  const double cap = any_cap();
  const double level = real_in(0.01, 0.999);
  show(t, cap);
  const LengthLaw law = make(t);
  const double mean = law.capped_mean(cap);
  const double cvar = law.capped_cvar(level, cap);
  RC_ASSERT(mean > 0 && mean <= cap);
  RC_ASSERT(law.capped_var(level, cap) <= cvar * (1 + kSlack));
  RC_ASSERT(mean <= cvar * (1 + kSlack));
  RC_ASSERT(cvar <= cap);
}

RC_GTEST_PROP(LengthLawProperty, ScoresGrowWithTheCap, ()) {
  const LogT t = any_law();
  const double cap = any_cap();
  const double more = cap * (1 + real_in(0, 3));
  show(t, cap);
  const LengthLaw law = make(t);
  RC_ASSERT(law.capped_mean(cap) <= law.capped_mean(more) * (1 + kSlack));
  RC_ASSERT(tie_score(law, cap, 0.3) <= tie_score(law, more, 0.3) * (1 + kSlack));
}

RC_GTEST_PROP(LengthLawProperty, ScoresGrowWithMu, ()) {
  const LogT t = any_law();
  const double cap = any_cap();
  show(t, cap);
  const LengthLaw law = make(t);
  const LengthLaw longer = make({t.mu + real_in(0, 2), t.sigma, t.nu});
  RC_ASSERT(tie_score(law, cap, 0.3) <= tie_score(longer, cap, 0.3) * (1 + kSlack));
  RC_ASSERT(law.capped_moments_fast(cap).mean <= longer.capped_moments_fast(cap).mean * (1 + 2e-5));
}

// E(mu, sigma, cap) = cap·E(mu − ln cap, sigma, 1): what lets one table serve every cap.
RC_GTEST_PROP(LengthLawProperty, TheScaleLawHolds, ()) {
  const LogT t = any_law();
  const double cap = any_cap();
  show(t, cap);
  const LengthLaw law = make(t);
  const LengthLaw scaled = make({t.mu - std::log(cap), t.sigma, t.nu});
  RC_ASSERT(std::fabs(law.capped_mean(cap) / (cap * scaled.capped_mean(1)) - 1) < kSlack);
  RC_ASSERT(std::fabs(law.capped_cvar(0.9, cap) / (cap * scaled.capped_cvar(0.9, 1)) - 1) < kSlack);
}

// The mean is the weighted mean of the best 1 − w and the worst w.
RC_GTEST_PROP(LengthLawProperty, MeanIsTheIntegralOfSurvival, ()) {
  const LogT t{real_in(0, 9), real_in(0.05, 2.5), *rc::gen::element(1.0, 3.5, 30.0)};
  const double cap = std::round(real_in(16, 4096));
  show(t, cap);
  const LengthLaw law = make(t);
  // Simpson on the log scale from a point below which survival is 1 to the digits that count.
  const double lo = t.mu - 40 * t.sigma - 25;
  const double hi = std::log(cap);
  constexpr int kSteps = 20'000;
  const double h = (hi - lo) / kSteps;
  double sum = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const double x = std::exp(lo + h * i);
    sum += (i == 0 || i == kSteps ? 1 : i % 2 == 1 ? 4 : 2) * law.survival(x) * x;
  }
  const double integral = std::exp(lo) + sum * h / 3;
  RC_ASSERT(std::fabs(law.capped_mean(cap) / integral - 1) < 1e-6);
}

RC_GTEST_PROP(LengthLawProperty, TheFastPathFollowsTheExactOneEverywhere, ()) {
  const LogT t{real_in(-5, 14), std::exp(real_in(std::log(0.003), std::log(5))), 3.5};
  const double cap = any_cap();
  show(t, cap);
  const LengthLaw law = make(t);
  const CappedMoments fast = law.capped_moments_fast(cap);
  RC_ASSERT(std::fabs(fast.mean / law.capped_mean(cap) - 1) < 1e-5);
  RC_ASSERT(std::fabs(fast.cvar / law.capped_cvar(0.9, cap) - 1) < 1e-5);
}

RC_GTEST_PROP(LengthLawProperty, WholeTokensStayInTheirBounds, ()) {
  const LogT t = any_law();
  const Tokens cap{static_cast<std::int64_t>(any_cap())};
  const Tokens age{*rc::gen::inRange<std::int64_t>(0, cap.count())};
  const Tokens quantum{*rc::gen::inRange<std::int64_t>(1, 100)};
  show(t, static_cast<double>(cap.count()));
  const LengthLaw law = make(t);
  const double left = law.mean_residual(age, cap);
  RC_ASSERT(left >= 1 && left <= static_cast<double>((cap - age).count()));
  const double rank = law.gittins_rank(age, cap, quantum);
  RC_ASSERT(rank > 0 && rank <= left * (1 + kSlack));
  const double inverse = law.mean_inverse(cap);
  RC_ASSERT(inverse > 0 && inverse <= 1);
  RC_ASSERT(inverse * law.mean_residual(Tokens{0}, cap) >= 1 - kSlack);  // Jensen
}

// Whole tokens are at most one token longer than the continuous law, and never shorter.
RC_GTEST_PROP(LengthLawProperty, TheTwoConventionsDifferByLessThanAToken, ()) {
  const LogT t = any_law();
  const double cap = std::round(std::exp(real_in(0, std::log(1e6))));
  show(t, cap);
  const LengthLaw law = make(t);
  const double whole = law.mean_residual(Tokens{0}, Tokens{static_cast<std::int64_t>(cap)});
  const double continuous = law.capped_mean(cap);
  RC_ASSERT(whole >= continuous * (1 - kSlack));
  RC_ASSERT(whole <= continuous * (1 + kSlack) + 1);
}

// ---- any family ----

LengthLaw any_plain() {
  const double shape = std::exp(real_in(std::log(0.02), std::log(2000)));
  const double scale = std::exp(real_in(-3, 14));
  const double sigma = std::exp(real_in(std::log(1e-4), std::log(20)));
  switch (*rc::gen::inRange(0, 7)) {
    case 0:
      return make(any_law());
    case 1:
      return LengthLaw::log_normal(real_in(-5, 15), sigma).value();
    case 2:
      return LengthLaw::gamma(shape, scale).value();
    case 3:
      return LengthLaw::weibull(shape, scale).value();
    case 4:
      return LengthLaw::exponential(scale).value();
    case 5:
      return LengthLaw::lomax(shape, scale).value();
    default: {
      std::vector<double> edges;
      std::vector<double> masses;
      double edge = 0;
      for (int i = *rc::gen::inRange(1, 40); i > 0; --i) {
        edges.push_back(edge += std::exp(real_in(-2, 6)));
        masses.push_back(std::max(0.0, real_in(-0.3, 1)));
      }
      masses.push_back(real_in(0.001, 1));
      return LengthLaw::binned(edges, masses).value();
    }
  }
}

LengthLaw any_family() {
  if (*rc::gen::inRange(0, 4) != 0) return any_plain();
  return LengthLaw::mixture(real_in(0, 1), any_plain(), any_plain()).value();
}

RC_GTEST_PROP(AnyFamilyProperty, SurvivalFallsAndComplementsTheDistributionFunction, ()) {
  const LengthLaw law = any_family();
  RC_LOG() << law.describe() << "\n";
  double previous = 1;
  for (double x = 1e-3; x < 1e9; x *= std::exp(real_in(0.1, 3))) {
    const double alive = law.survival(x);
    RC_ASSERT(alive >= 0 && alive <= previous * (1 + 1e-12));
    RC_ASSERT(std::fabs(alive + law.cdf(x) - 1) < 1e-12);
    RC_ASSERT(law.density(x) >= 0);
    previous = alive;
  }
}

RC_GTEST_PROP(AnyFamilyProperty, QuantileUndoesTheDistributionFunction, ()) {
  const LengthLaw law = any_family();
  RC_LOG() << law.describe() << "\n";
  double previous = 0;
  for (const double p : {1e-9, 0.01, 0.3, 0.5, 0.7, 0.9, 0.999, 1 - 1e-9}) {
    const double x = law.quantile(p);
    RC_ASSERT(x >= previous && std::isfinite(x));
    previous = x;
    if (x < 1e-300 || x > 1e300) continue;  // bounded
    // Just below it the probability is not reached yet, just above it is.
    RC_ASSERT(law.cdf(x * (1 - 1e-9)) <= p * (1 + 1e-7));
    RC_ASSERT(law.survival(x * (1 + 1e-9)) <= (1 - p) * (1 + 1e-7));
  }
}

RC_GTEST_PROP(AnyFamilyProperty, CapQuantileMeanAndTailAreConsistent, ()) {
  const LengthLaw law = any_family();
  const double cap = any_cap();
  const double level = real_in(0.01, 0.999);
  RC_LOG() << law.describe() << " cap " << cap << " level " << level << "\n";
  const double mean = law.capped_mean(cap);
  const double var = law.capped_var(level, cap);
  const double cvar = law.capped_cvar(level, cap);
  RC_ASSERT(var == std::min(law.quantile(level), cap));
  RC_ASSERT(mean >= 0 && mean <= cap);
  RC_ASSERT(var <= cvar && mean <= cvar * (1 + kSlack) && cvar <= cap);
  RC_ASSERT(law.capped_mean(2 * cap) >= mean * (1 - kSlack));
  // The worst 1 − level hold no more than everything there is.
  RC_ASSERT(cvar * (1 - level) <= mean * (1 + kSlack));
  const CappedMoments fast = law.capped_moments_fast(cap);
  RC_ASSERT(std::fabs(fast.mean - mean) <= 1e-5 * mean);
  RC_ASSERT(std::fabs(fast.cvar - law.capped_cvar(0.9, cap)) <= 1e-5 * fast.cvar);
}

RC_GTEST_PROP(AnyFamilyProperty, MeanIsTheIntegralOfSurvival, ()) {
  const LengthLaw law = any_family();
  const double from = std::exp(real_in(0, 8));
  const double to = from * (1 + real_in(0.01, 4));
  RC_LOG() << law.describe() << " from " << from << " to " << to << "\n";
  // The survival falls: each strip lies between its two rectangles.
  constexpr int kStrips = 2000;
  double low = 0;
  double high = 0;
  for (int i = 0; i < kStrips; ++i) {
    const double width = (to - from) / kStrips;
    high += width * law.survival(from + width * i);
    low += width * law.survival(from + width * (i + 1));
  }
  const double more = law.capped_mean(to) - law.capped_mean(from);
  const double slack = 1e-10 * law.capped_mean(to);
  RC_ASSERT(more >= low - slack && more <= high + slack);
}

RC_GTEST_PROP(AnyFamilyProperty, WholeTokensStayInTheirBounds, ()) {
  const LengthLaw law = any_family();
  const Tokens cap{static_cast<std::int64_t>(any_cap())};
  const Tokens age{*rc::gen::inRange<std::int64_t>(0, cap.count())};
  const Tokens quantum{*rc::gen::inRange<std::int64_t>(1, 100)};
  RC_LOG() << law.describe() << " age " << age.count() << " cap " << cap.count() << "\n";
  const double room = static_cast<double>((cap - age).count());
  const double left = law.mean_residual(age, cap);
  RC_ASSERT(left >= 1 && left <= room);
  const double rank = law.gittins_rank(age, cap, quantum);
  RC_ASSERT(rank > 0 && rank <= left * (1 + kSlack));
  RC_ASSERT(rank <= law.gittins_rank(age, cap, quantum + quantum) * (1 + kSlack));
  const Tokens median = law.residual_quantile(0.5, age, cap);
  RC_ASSERT(median.count() >= 1 && median <= cap - age);
  RC_ASSERT(median <= law.residual_quantile(0.9, age, cap));
  const double whole = law.mean_residual(Tokens{0}, cap);
  const double inverse = law.mean_inverse(cap);
  RC_ASSERT(inverse > 0 && inverse <= 1);
  RC_ASSERT(inverse * whole >= 1 - kSlack);  // Jensen
  const double continuous = law.capped_mean(static_cast<double>(cap.count()));
  RC_ASSERT(whole >= continuous * (1 - kSlack) && whole <= continuous * (1 + kSlack) + 1);
}

}  // namespace
}  // namespace tailrace::length
