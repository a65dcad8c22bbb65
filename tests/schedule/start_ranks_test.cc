#include "schedule/start_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tailrace/core/rng.h"

namespace tailrace::schedule {
namespace {

length::LengthLaw law(double mu, double sigma, double nu = 3.5) {
  return length::LengthLaw::log_t(mu, sigma, nu).value();
}

TEST(StartRanks, AreWithinAFewPercentOfTheExactRankAndNearlyAlwaysWithinOne) {
  Rng rng(1);
  for (const std::int64_t quantum : {1, 16, 64}) {
    StartRanks ranks{Tokens{quantum}};
    std::vector<double> errors;
    for (int i = 0; i < 400; ++i) {
      const auto any = law(2 + 10 * rng.uniform(), std::exp(-2.99 + 3.98 * rng.uniform()));
      const Tokens cap{std::llround(std::exp(4.2 + 9.6 * rng.uniform()))};
      const double exact = any.gittins_rank(Tokens{0}, cap, Tokens{quantum});
      errors.push_back(std::abs(ranks.find(any, cap).value() / exact - 1));
      EXPECT_LT(errors.back(), 0.025) << any.describe() << ", cap " << cap.count();
    }
    std::sort(errors.begin(), errors.end());
    EXPECT_LT(errors[errors.size() / 2], 0.001);
    EXPECT_LT(errors[errors.size() * 98 / 100], 0.01);
  }
}

TEST(StartRanks, DoNotDependOnWhatWasAskedBefore) {
  StartRanks asked{Tokens{16}};
  for (double mu = 4; mu < 6; mu += 0.07) (void)asked.find(law(mu, 0.7), Tokens{2048});
  StartRanks fresh{Tokens{16}};
  EXPECT_EQ(asked.find(law(5.03, 0.71), Tokens{1999}), fresh.find(law(5.03, 0.71), Tokens{1999}));
}

TEST(StartRanks, GrowWithTheMedian) {
  StartRanks ranks{Tokens{16}};
  for (const double sigma : {0.1, 0.5, 1.0, 2.0}) {
    double before = 0;
    for (double mu = 2; mu <= 12; mu += 0.05) {
      const double rank = ranks.find(law(mu, sigma), Tokens{4096}).value();
      EXPECT_GE(rank, before) << mu << ' ' << sigma;
      before = rank;
    }
  }
}

TEST(StartRanks, KnowOnlyTheirGrid) {
  StartRanks ranks{Tokens{16}};
  EXPECT_TRUE(ranks.find(law(2, 0.5), Tokens{2048}));
  EXPECT_TRUE(ranks.find(law(12, 0.5), Tokens{1'000'000}));
  EXPECT_FALSE(ranks.find(law(1.99, 0.5), Tokens{2048}));
  EXPECT_FALSE(ranks.find(law(12.01, 0.5), Tokens{2048}));
  EXPECT_FALSE(ranks.find(law(5, 0.04), Tokens{2048}));
  EXPECT_FALSE(ranks.find(law(5, 3), Tokens{2048}));
  EXPECT_FALSE(ranks.find(law(5, 0.5), Tokens{16}));
  EXPECT_FALSE(ranks.find(law(5, 0.5), Tokens{2'000'000}));
  EXPECT_FALSE(ranks.find(law(5, 0.5, 4), Tokens{2048}));
  EXPECT_FALSE(ranks.find(length::LengthLaw::log_normal(5, 0.5).value(), Tokens{2048}));
  EXPECT_FALSE(StartRanks{Tokens{65}}.find(law(5, 0.5), Tokens{2048}));
}

}  // namespace
}  // namespace tailrace::schedule
