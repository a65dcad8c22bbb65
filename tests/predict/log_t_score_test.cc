#include "predict/log_t_score.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tailrace::predict {
namespace {

TEST(LogTScore, AgreesWithFiniteDifferencesOfTheLikelihood) {
  for (const bool censored : {false, true}) {
    for (const double y : {-20.0, -3.0, -1.0, 0.0, 0.3, 2.0, 8.0, 30.0}) {
      const double mu = 0.2;
      const double log_sigma = -0.4;
      const auto value = [&](double m, double ls) {
        return log_likelihood((y - m) / std::exp(ls), std::exp(ls), censored);
      };
      const double h = 1e-5;
      const double sigma = std::exp(log_sigma);
      const Score s = score((y - mu) / sigma, censored);
      const double by_mu = (value(mu + h, log_sigma) - value(mu - h, log_sigma)) / (2 * h);
      const double by_scale = (value(mu, log_sigma + h) - value(mu, log_sigma - h)) / (2 * h);
      EXPECT_NEAR(s.location / sigma, by_mu, 1e-6 * (1 + std::abs(by_mu))) << y << censored;
      EXPECT_NEAR(s.log_scale, by_scale, 1e-6 * (1 + std::abs(by_scale))) << y << censored;
      EXPECT_GT(s.curvature, 0) << y << censored;
    }
  }
}

TEST(LogTScore, InfluenceOfAnOutlierFallsToNothing) {
  EXPECT_LT(std::abs(complete_score(1e6).location), 1e-5);
  EXPECT_LT(complete_score(1e6).log_scale, 3.5 + 1e-9);
  EXPECT_TRUE(std::isfinite(censored_score(1e12).location));
  EXPECT_TRUE(std::isfinite(censored_score(-1e12).log_scale));
}

TEST(LogTScore, HazardIsContinuousWhereTheTailFormulaTakesOver) {
  EXPECT_NEAR(censored_score(50.0).location, censored_score(50.0001).location, 2e-4);
}

TEST(LogTScore, LengthsBelowOneTokenCountAsOne) {
  EXPECT_EQ(log_length(0), log_length(1));
  EXPECT_EQ(log_length(-5), log_length(1));
  EXPECT_NEAR(log_length(100), std::log(99.5), 1e-12);
}

}  // namespace
}  // namespace tailrace::predict
