#include "tailrace/length/tie_score.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "length/support/reference.h"

namespace tailrace::length {
namespace {

using testing::relative_error;
using testing::Row;
using testing::shared_vectors;

ScoreRequest request(double mu, double sigma, std::int64_t cap, double beta) {
  ScoreRequest r;
  r.law = {mu, sigma, 3.5};
  r.cap = Tokens{cap};
  r.beta = beta;
  return r;
}

TEST(TieScore, IsTheMeanInflatedByTheTail) {
  const auto law = LengthLaw::log_t(5, 0.5).value();
  // mu 5, sigma 0.5, cap 2048, from a 30-digit integration.
  EXPECT_LT(relative_error(tie_score(law, 2048, 0), 193.907997409), 1e-11);
  EXPECT_LT(relative_error(tie_score(law, 2048, 0.1), 255.651765781), 1e-11);
  EXPECT_LT(relative_error(tie_score(law, 2048, 0.3), 379.139302525), 1e-11);
}

TEST(TieScore, AgreesWithTheSharedVectors) {
  const auto vectors = shared_vectors();
  if (!vectors) GTEST_SKIP() << "no shared reference vectors; set TAILRACE_SHARED";
  for (const Row& row : vectors->moments) {
    const auto law = LengthLaw::log_t(row.at("mu"), row.at("sigma"), row.at("nu")).value();
    EXPECT_LT(relative_error(tie_score(law, row.at("xmax"), 0.1), row.at("tie_beta_0_1")), 1e-11);
    EXPECT_LT(relative_error(tie_score(law, row.at("xmax"), 0.3), row.at("tie_beta_0_3")), 1e-11);
    EXPECT_LT(relative_error(tie_score(law, row.at("xmax"), 0.5), row.at("tie_beta_0_5")), 1e-11);
  }
}

// The released estimator has a relative standard error of 1.05 % on the mean and 2.6 % on CVaR at
// mu 5, sigma 0.5 with 10,000 draws. Averaged over 64 repeats the error must shrink by 8; four of
// those standard errors are allowed.
TEST(MonteCarlo, IsUnbiasedWithinItsStandardError) {
  const auto law = LengthLaw::log_t(5, 0.5).value();
  constexpr int kRepeats = 64;
  double mean = 0, cvar = 0, squares = 0;
  Rng rng(11);
  for (int i = 0; i < kRepeats; ++i) {
    const CappedMoments drawn = monte_carlo_moments(law, 2048, 0.9, rng);
    mean += drawn.mean / kRepeats;
    cvar += drawn.cvar / kRepeats;
    squares += drawn.mean * drawn.mean / kRepeats;
  }
  const double exact_mean = law.capped_mean(2048);
  EXPECT_LT(relative_error(mean, exact_mean), 4 * 0.0105 / 8);
  EXPECT_LT(relative_error(cvar, law.capped_cvar(0.9, 2048)), 4 * 0.026 / 8);
  const double spread = std::sqrt(squares - mean * mean) / exact_mean;
  EXPECT_GT(spread, 0.0105 / 2) << "the draws are not fresh";
  EXPECT_LT(spread, 0.0105 * 2);
}

TEST(MonteCarlo, TakesTheQuantileWhereNoDrawLiesAbove) {
  const auto law = LengthLaw::log_t(500, 0.1).value();  // every draw is cut at the cap
  Rng rng(1);
  const CappedMoments drawn = monte_carlo_moments(law, 100, 0.9, rng);
  EXPECT_EQ(drawn.mean, 100);
  EXPECT_EQ(drawn.cvar, 100);
}

TEST(MonteCarlo, SameSeedSameScore) {
  auto r = request(5, 0.5, 2048, 0.1);
  r.method = ScoreMethod::kMonteCarlo;
  r.seed = 7;
  const double first = score_report(r)->score;
  EXPECT_EQ(score_report(r)->score, first);
  r.seed = 8;
  EXPECT_NE(score_report(r)->score, first);
}

TEST(MonteCarlo, TheReleasedCodeCapsTheTwoTermsApartAndRounds) {
  const auto law = LengthLaw::log_t(500, 0.1).value();
  Rng rng(1);
  const MonteCarloOptions options{.released_code = true};
  const CappedMoments drawn = monte_carlo_moments(law, 100, 0.9, rng, options);
  EXPECT_EQ(drawn.mean, 2028);
  EXPECT_EQ(drawn.cvar, 2048);
  EXPECT_EQ(monte_carlo_score(drawn, 0.1, options), 2233);
  EXPECT_EQ(monte_carlo_score({0.1, 0.1}, 0.1, options), 1);
  EXPECT_DOUBLE_EQ(monte_carlo_score({0.1, 0.1}, 0.1, {}), 0.11);
}

TEST(ScoreReport, HoldsTheAnswersOfTheLaw) {
  const auto law = LengthLaw::log_t(5, 1).value();
  const auto report = score_report(request(5, 1, 2048, 0.2)).value();
  EXPECT_EQ(report.mean, law.capped_mean(2048));
  EXPECT_EQ(report.var, law.capped_var(0.9, 2048));
  EXPECT_EQ(report.cvar, law.capped_cvar(0.9, 2048));
  EXPECT_EQ(report.score, report.mean + 0.2 * report.cvar);
  EXPECT_EQ(report.p_cap, law.survival(2048));
  EXPECT_EQ(report.median, law.median());
  EXPECT_EQ(report.ratio, report.mean / law.mean_inverse(Tokens{2048}));
  EXPECT_EQ(report.gittins, law.gittins_rank(Tokens{0}, Tokens{2048}, Tokens{16}));
  EXPECT_EQ(score_report(request(9, 1, 100, 0.2))->median, 100) << "the median is capped";
}

TEST(ScoreReport, TheTableAgreesWithQuadratureAndFallsBackForOtherLevels) {
  auto r = request(5, 1, 2048, 0.2);
  const double exact = score_report(r)->score;
  r.method = ScoreMethod::kTable;
  EXPECT_LT(relative_error(score_report(r)->score, exact), 1e-5);
  EXPECT_NE(score_report(r)->score, exact) << "the table was not asked";
  r.level = 0.95;
  const auto law = LengthLaw::log_t(5, 1).value();
  EXPECT_EQ(score_report(r)->cvar, law.capped_cvar(0.95, 2048));
}

TEST(ScoreReport, NamesTheFieldItRejects) {
  const auto message = [](const ScoreRequest& bad) {
    const auto report = score_report(bad);
    return report ? std::string("accepted") : report.error().message;
  };
  EXPECT_TRUE(message(request(std::nan(""), 1, 10, 0.1)).starts_with("mu: "));
  EXPECT_TRUE(message(request(5, 0, 10, 0.1)).starts_with("sigma: "));
  EXPECT_TRUE(message(request(5, 1, 0, 0.1)).starts_with("max-tokens: 0 "));
  EXPECT_TRUE(message(request(5, 1, kLargestCap.count() + 1, 0.1)).starts_with("max-tokens: "));
  EXPECT_EQ(message(request(5, 1, kLargestCap.count(), 0.1)), "accepted");
  EXPECT_TRUE(message(request(5, 1, 10, -0.1)).starts_with("beta: -0.1 "));
  EXPECT_TRUE(message(request(5, 1, 10, std::nan(""))).starts_with("beta: nan "));
  for (const double level : {0.0, 1.0, -1.0, std::nan("")}) {
    auto bad = request(5, 1, 10, 0.1);
    bad.level = level;
    EXPECT_TRUE(message(bad).starts_with("level: ")) << level;
  }
  EXPECT_TRUE(parse_score_method("fast").error().message.starts_with("method: \"fast\""));
}

}  // namespace
}  // namespace tailrace::length
