#include "predict/length_bins.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "predict/log_t_score.h"

namespace tailrace::predict {
namespace {

double sum(const Bins& bins) {
  return std::accumulate(bins.begin(), bins.end(), 0.0);
}

TEST(LengthBins, EdgesAreWholeAndAscendFromSingleTokens) {
  EXPECT_EQ(kBins, 128U);
  for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(kEdge[i], static_cast<double>(i + 1));
  for (std::size_t i = 1; i < kEdges; ++i) {
    EXPECT_EQ(kEdge[i], std::floor(kEdge[i]));
    EXPECT_GT(kEdge[i], kEdge[i - 1]);
    if (kEdge[i] > 24) {
      EXPECT_LT(kEdge[i] / kEdge[i - 1], kEdge[i] <= 8192 ? 1.11 : 1.26) << i;
    }
  }
  EXPECT_EQ(kEdge.back(), 1 << 20);
}

TEST(LengthBins, EachLengthLiesInItsBin) {
  for (std::int64_t tokens = 1; tokens < 5000; ++tokens) {
    const auto x = static_cast<double>(tokens);
    const std::size_t bin = bin_of(x);
    EXPECT_LE(x, kEdge[bin]);
    if (bin > 0) {
      EXPECT_GT(x, kEdge[bin - 1]);
    }
  }
  EXPECT_EQ(bin_of(0), 0U);
  EXPECT_EQ(bin_of(1e9), kEdges);
  EXPECT_EQ(passed_share(bin_of(25), 25), 0.5);
  EXPECT_EQ(passed_share(bin_of(7), 7), 1);
}

TEST(LengthBins, FastLogAndExpAreCloseEverywhere) {
  for (double x = 1e-12; x < 1e12; x *= 1.37) {
    EXPECT_NEAR(static_cast<double>(fast_log(static_cast<float>(x))), std::log(x),
                2e-5 + 2e-7 * std::abs(std::log(x)));
  }
  for (double x = -79; x < 79; x += 0.37) {
    const double e = std::exp(static_cast<double>(static_cast<float>(x)));
    EXPECT_NEAR(static_cast<double>(fast_exp(static_cast<float>(x))) / e, 1, 1e-5) << x;
  }
}

TEST(LengthBins, LogTMassesAreThoseOfTheLawInBothTails) {
  for (const double mu : {1.0, 5.0, 8.0}) {
    for (const double sigma : {0.05, 0.5, 2.0}) {
      Bins mass;
      log_t_bins(mu, sigma, mass);
      EXPECT_NEAR(sum(mass), 1, 1e-5);
      double before = 0;
      for (std::size_t i = 0; i < kEdges; ++i) {
        const double z = (std::log(kEdge[i]) - mu) / sigma;
        const double z_before = i == 0 ? -1e9 : (std::log(kEdge[i - 1]) - mu) / sigma;
        // From the side where the difference keeps its digits.
        before =
            z > 0 ? survival_t(z_before) - survival_t(z) : survival_t(-z) - survival_t(-z_before);
        if (before < 1e-12) continue;
        EXPECT_NEAR(static_cast<double>(mass[i]) / before, 1, 0.01 + 2e-6 / before)
            << mu << " " << sigma << " " << i;
      }
    }
  }
}

TEST(LengthBins, SpreadIsOneUnitAroundTheLength) {
  for (const double tokens : {1.0, 2.0, 30.0, 999.0, 1e7}) {
    for (const double width : {0.01, 0.3, 0.9}) {
      const Spread s = spread(tokens, width);
      EXPECT_NEAR(std::accumulate(s.part.begin(), s.part.end(), 0.0), 1, 1e-6);
      EXPECT_LE(s.first, bin_of(tokens));
      EXPECT_GE(s.first + s.count, bin_of(tokens) + 1);
      EXPECT_LE(s.first + s.count, kBins);
    }
  }
  EXPECT_EQ(spread(1, 0.5).count, 1U);  // a one-token answer stays one
}

TEST(LengthBins, LogOddsSayTheHazard) {
  Bins mass;
  log_t_bins(5, 0.5, mass);
  Bins alive;
  survivals(mass, alive);
  Bins odds;
  log_odds(mass, odds);
  for (std::size_t i = 60; i < 90; ++i) {
    EXPECT_NEAR(static_cast<double>(odds[i]),
                std::log(static_cast<double>(mass[i]) / static_cast<double>(alive[i])), 1e-4);
  }
  EXPECT_EQ(odds[kEdges], kLogOdds);
}

TEST(LengthBins, QuantileUndoesCumulative) {
  Bins mass;
  log_t_bins(5, 0.7, mass);
  for (const double p : {0.01, 0.1, 0.5, 0.9, 0.99}) {
    EXPECT_NEAR(cumulative(mass, quantile(mass, p)), p, 1e-6);
  }
  EXPECT_NEAR(quantile(mass, 0.5), std::exp(5), 1.5);
}

}  // namespace
}  // namespace tailrace::predict
