// What must hold for every law, not only for the ones we thought of.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>

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

}  // namespace
}  // namespace tailrace::length
