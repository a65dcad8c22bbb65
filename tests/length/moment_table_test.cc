#include "length/moment_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "length/support/reference.h"
#include "tailrace/core/rng.h"

namespace tailrace::length {
namespace {

using testing::relative_error;

constexpr double kTolerance = 1e-5;

TEST(MomentTable, StaysWithinItsBoundOfQuadratureOverItsRange) {
  Rng rng(20260401);
  double worst_mean = 0, worst_cvar = 0, worst_score = 0;
  for (int i = 0; i < 20'000; ++i) {
    const double mu = 9 * rng.uniform();
    const double sigma =
        i % 2 == 0 ? 0.01 + 2.49 * rng.uniform() : 0.01 * std::pow(250, rng.uniform());
    const double cap = std::round(16 * std::pow(8192, rng.uniform()));
    const auto law = LengthLaw::log_t(mu, sigma).value();
    const auto fast = moment_table().find(*law.as_log_t(), cap);
    ASSERT_TRUE(fast) << "outside: " << mu << " " << sigma << " " << cap;
    const double mean = law.capped_mean(cap);
    const double cvar = law.capped_cvar(0.9, cap);
    worst_mean = std::max(worst_mean, relative_error(fast->mean, mean));
    worst_cvar = std::max(worst_cvar, relative_error(fast->cvar, cvar));
    for (const double beta : {0.1, 0.5}) {
      worst_score =
          std::max(worst_score, relative_error(fast->mean + beta * fast->cvar, mean + beta * cvar));
    }
  }
  EXPECT_LT(worst_mean, kTolerance);
  EXPECT_LT(worst_cvar, kTolerance);
  EXPECT_LT(worst_score, kTolerance);
}

TEST(MomentTable, HoldsAtTheCornersOfItsRange) {
  for (const double mu : {0.0, 9.0}) {
    for (const double sigma : {0.01, 2.5}) {
      for (const double cap : {16.0, 131'072.0}) {
        const auto law = LengthLaw::log_t(mu, sigma).value();
        const auto fast = moment_table().find(*law.as_log_t(), cap);
        ASSERT_TRUE(fast) << mu << " " << sigma << " " << cap;
        EXPECT_LT(relative_error(fast->mean, law.capped_mean(cap)), kTolerance);
        EXPECT_LT(relative_error(fast->cvar, law.capped_cvar(0.9, cap)), kTolerance);
      }
    }
  }
}

TEST(MomentTable, HoldsWhereTheCapMeetsTheMedianAndTheValueAtRisk) {
  for (const double sigma : {0.01, 0.0137, 0.1, 0.75, 2.5}) {
    for (const double z : {-1.0, -1e-3, 0.0, 1e-3, 1.57, 1.5765, 1.5766, 1.58, 1.7, 3.0}) {
      const auto law = LengthLaw::log_t(5, sigma).value();
      const double cap = std::exp(5 + sigma * z);
      const CappedMoments fast = law.capped_moments_fast(cap);
      EXPECT_LT(relative_error(fast.mean, law.capped_mean(cap)), kTolerance) << sigma << " " << z;
      EXPECT_LT(relative_error(fast.cvar, law.capped_cvar(0.9, cap)), kTolerance)
          << sigma << " " << z;
    }
  }
}

TEST(MomentTable, LeavesTheRestToQuadrature) {
  for (const LogT& far : {LogT{5, 0.005, 3.5}, LogT{5, 3.2, 3.5}, LogT{5, 0.5, 4},
                          LogT{-30, 0.5, 3.5}, LogT{600, 0.5, 3.5}}) {
    EXPECT_FALSE(moment_table().find(far, 2048)) << far.mu << " " << far.sigma << " " << far.nu;
    const auto law = LengthLaw::log_t(far.mu, far.sigma, far.nu).value();
    EXPECT_EQ(law.capped_moments_fast(2048).mean, law.capped_mean(2048));
    EXPECT_EQ(law.capped_moments_fast(2048).cvar, law.capped_cvar(0.9, 2048));
  }
}

TEST(MomentTable, IsSmallAndTheSameEachTimeItIsBuilt) {
  const MomentTable again;
  EXPECT_LE(again.bytes(), std::size_t{8} << 20);
  const LogT law{4.6, 0.75, 3.5};
  EXPECT_EQ(again.find(law, 2048)->mean, moment_table().find(law, 2048)->mean);
  EXPECT_EQ(again.find(law, 2048)->cvar, moment_table().find(law, 2048)->cvar);
}

}  // namespace
}  // namespace tailrace::length
