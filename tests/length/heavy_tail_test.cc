// Why answer lengths have a heavy tail: the theorem, the rate at which it comes true, and the
// numbers of docs/heavy-tails.md, which these tests print and compare with the page.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/math/special_functions/gamma.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "length/support/reference.h"
#include "tailrace/core/rng.h"
#include "tailrace/length/length_law.h"

namespace tailrace::length {
namespace {

using testing::relative_error;

/// The law of an answer's chance p to end at each token, with density p^(a − 1)·rest(p).
struct EndingChance {
  double a;
  std::function<double(double)> rest;

  double c() const { return rest(0); }
  /// What P(L > n)·n^a comes to.
  double limit() const { return c() * std::tgamma(a); }
};

/// P(L > n), the mean of (1 − p)^n: over y with p = 1/(1 + e^−y) the integrand fades at both ends,
/// and the trapezoidal rule converges geometrically.
double longer_than(const EndingChance& chance, double n) {
  constexpr double kStep = 0.05;
  const double from = -40 / chance.a - std::log(1 + n);
  double sum = 0;
  for (double y = from; y < 40; y += kStep) {
    const double p = 1 / (1 + std::exp(-y));
    const double log_on = -std::log1p(std::exp(y));  // ln(1 − p)
    sum += std::pow(p, chance.a) * std::exp((n + 1) * log_on) * chance.rest(p);
  }
  return sum * kStep;
}

EndingChance beta_chance(double a, double b) {
  const double scale = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b));
  return {a, [=](double p) { return scale * std::pow(1 - p, b - 1); }};
}

/// Gamma's density, cut at 1.
EndingChance cut_gamma_chance(double a, double rate) {
  const double scale = std::pow(rate, a) / boost::math::tgamma_lower(a, rate);
  return {a, [=](double p) { return scale * std::exp(-rate * p); }};
}

/// Neither Beta's nor Gamma's: p^(a − 1)·(1 + p).
EndingChance rising_chance(double a) {
  const double scale = 1 / (1 / a + 1 / (a + 1));
  return {a, [=](double p) { return scale * (1 + p); }};
}

double off_the_limit(const EndingChance& chance, double n) {
  return longer_than(chance, n) * std::pow(n, chance.a) / chance.limit() - 1;
}

TEST(HeavyTail, AMixtureOfGeometricLengthsFallsAsThePowerOfItsChances) {
  for (const EndingChance& chance :
       {beta_chance(0.5, 1), beta_chance(0.5, 3), beta_chance(1.2, 2), beta_chance(2.5, 4),
        cut_gamma_chance(0.7, 3), cut_gamma_chance(1.5, 2), rising_chance(0.4),
        rising_chance(1.8)}) {
    SCOPED_TRACE(chance.a);
    EXPECT_NEAR(longer_than(chance, 0), 1, 1e-9) << "a density";
    EXPECT_NEAR(off_the_limit(chance, 1e6), 0, 1e-4);
    // What is missing is of order 1/n: ten times the tokens, a tenth of the error.
    for (const double n : {100.0, 1000.0, 10'000.0}) {
      EXPECT_NEAR(off_the_limit(chance, n) / off_the_limit(chance, 10 * n), 10, 10 * 30 / n);
    }
  }
}

TEST(HeavyTail, TheIntegralIsBetasOwn) {
  for (const double n : {1.0, 30.0, 1000.0, 1e6}) {
    const double a = 0.5, b = 3;
    const double exact =
        std::exp(std::lgamma(b + n) - std::lgamma(a + b + n) + std::lgamma(a + b) - std::lgamma(b));
    EXPECT_LT(relative_error(longer_than(beta_chance(a, b), n), exact), 1e-8) << n;
  }
}

TEST(HeavyTail, SimulatedAnswersShowIt) {
  const EndingChance chance = beta_chance(0.8, 1.5);
  Rng rng(20260401);
  constexpr int kAnswers = 400'000;
  constexpr double kTokens = 200;
  int longer = 0;
  for (int i = 0; i < kAnswers; ++i) {
    const double x = rng.gamma(0.8);
    const double p = x / (x + rng.gamma(1.5));
    // One chance for the whole answer: its length is geometric.
    const double tokens = std::ceil(std::log1p(-rng.uniform()) / std::log1p(-p));
    if (tokens > kTokens) ++longer;
  }
  const double share = static_cast<double>(longer) / kAnswers;
  const double expected = longer_than(chance, kTokens);
  EXPECT_NEAR(share, expected, 4 * std::sqrt(expected / kAnswers));
  EXPECT_LT(relative_error(share * std::pow(kTokens, chance.a), chance.limit()), 0.05);
}

TEST(HeavyTail, LogTFallsSlowerThanEveryPower) {
  const auto law = LengthLaw::log_t(5, 0.5).value();
  const auto steepness = [&](double x) { return x * law.density(x) / law.survival(x); };
  EXPECT_GT(steepness(500), 1.9) << "inside usual caps like a power of 2 …";
  double before = steepness(500);
  for (double x = 1000; x < 1e100; x *= x) {
    EXPECT_LT(steepness(x), before);
    before = steepness(x);
  }
  EXPECT_LT(before, 0.02) << "… and in the end like none";
}

// ---- the numbers of docs/heavy-tails.md ---------------------------------------------------------

std::string page() {
  std::ifstream file(std::filesystem::path(TAILRACE_SOURCE_DIR) / "docs/heavy-tails.md");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The table stands on the page whole, under its head and with nothing after it.
void expect_on_page(const std::string& head, const std::string& rows) {
  fmt::print("{}{}", head, rows);
  std::string rule = "|";
  for (std::size_t i = 1; i < static_cast<std::size_t>(std::count(head.begin(), head.end(), '|'));
       ++i) {
    rule += "---|";
  }
  EXPECT_NE(page().find(head + rule + "\n" + rows + "\n"), std::string::npos)
      << "docs/heavy-tails.md lacks this table";
}

TEST(HeavyTail, TheTableOfTheTheoremIsOnItsPage) {
  const EndingChance chance = beta_chance(1.5, 10);
  std::string rows;
  for (const double n : {10, 100, 1'000, 10'000, 100'000}) {
    rows += fmt::format("| {:.0f} | {:.2e} | {:.3f} |\n", n, longer_than(chance, n),
                        1 + off_the_limit(chance, n));
  }
  expect_on_page("| n | P(L > n) | of the limit |\n", rows);
}

TEST(HeavyTail, TheTableOfWhatIsLeftIsOnItsPage) {
  const auto law = LengthLaw::log_t(5, 0.5).value();
  constexpr Tokens kCap{2048};
  std::string rows;
  for (const std::int64_t at : {0, 64, 128, 256, 512, 1024, 1920}) {
    const Tokens age{at};
    rows += fmt::format("| {} | {:.3f} | {:.0f} | {} | {:.0f} |\n", at,
                        law.survival(static_cast<double>(at)), law.mean_residual(age, kCap),
                        law.residual_quantile(0.5, age, kCap).count(),
                        law.gittins_rank(age, kCap, Tokens{16}));
  }
  expect_on_page("| age | still running | mean left | half end within | Gittins rank |\n", rows);
}

}  // namespace
}  // namespace tailrace::length
