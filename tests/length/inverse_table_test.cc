#include "length/inverse_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "length/support/reference.h"
#include "tailrace/core/rng.h"

namespace tailrace::length {
namespace {

using testing::relative_error;

constexpr double kTolerance = 1e-3;

double random_sigma(Rng& rng) {
  return 0.03 * std::pow(100, rng.uniform());
}

TEST(InverseTable, StaysWithinItsBoundOfTheExactPathOverItsRange) {
  Rng rng(20260401);
  double worst = 0;
  double worst_ratio = 0;
  for (int i = 0; i < 6'000; ++i) {
    const double mu = -2 + 14 * rng.uniform();
    const Tokens cap{static_cast<std::int64_t>(std::exp(12 * rng.uniform()))};
    const auto law = LengthLaw::log_t(mu, random_sigma(rng)).value();
    ASSERT_TRUE(inverse_table().find(*law.as_log_t(), static_cast<double>(cap.count())));
    worst = std::max(worst, relative_error(law.mean_inverse_fast(cap), law.mean_inverse(cap)));
    worst_ratio =
        std::max(worst_ratio, relative_error(law.ratio_index_fast(cap), law.ratio_index(cap)));
  }
  EXPECT_LT(worst, kTolerance);
  EXPECT_LT(worst_ratio, kTolerance);
}

// A narrow law of few tokens is a staircase in mu, and so it is in the cap.
TEST(InverseTable, HoldsWhereSingleTokensShow) {
  for (const double sigma : {0.03, 0.045, 0.1, 0.4}) {
    for (double mu = -2; mu <= 4; mu += 0.037) {
      const auto law = LengthLaw::log_t(mu, sigma).value();
      for (const std::int64_t cap : {1, 2, 3, 7, 10, 11, 13, 15, 16, 17, 19, 23, 31, 64, 2048}) {
        EXPECT_LT(relative_error(law.mean_inverse_fast(Tokens{cap}), law.mean_inverse(Tokens{cap})),
                  kTolerance)
            << mu << " " << sigma << " " << cap;
      }
    }
  }
}

TEST(InverseTable, HoldsAtTheCornersOfItsRangeAndForTheLargestCap) {
  for (const double mu : {-2.0, 12.0}) {
    for (const double sigma : {0.03, 3.0}) {
      for (const std::int64_t cap : {std::int64_t{1}, std::int64_t{16}, std::int64_t{1} << 53}) {
        const LogT law{mu, sigma, 3.5};
        const auto fast = inverse_table().find(law, static_cast<double>(cap));
        ASSERT_TRUE(fast) << mu << " " << sigma;
        const double exact = LengthLaw::log_t(mu, sigma).value().mean_inverse(Tokens{cap});
        EXPECT_LT(relative_error(*fast, exact), kTolerance) << mu << " " << sigma << " " << cap;
      }
    }
  }
}

TEST(InverseTable, LeavesTheRestToTheExactPath) {
  for (const LogT& far : {LogT{5, 0.02, 3.5}, LogT{5, 3.2, 3.5}, LogT{5, 0.5, 4},
                          LogT{-3, 0.5, 3.5}, LogT{13, 0.5, 3.5}}) {
    EXPECT_FALSE(inverse_table().find(far, 2048)) << far.mu << " " << far.sigma << " " << far.nu;
    const auto law = LengthLaw::log_t(far.mu, far.sigma, far.nu).value();
    EXPECT_EQ(law.mean_inverse_fast(Tokens{2048}), law.mean_inverse(Tokens{2048}));
  }
  const auto gamma = LengthLaw::gamma(2, 100).value();
  EXPECT_EQ(gamma.mean_inverse_fast(Tokens{2048}), gamma.mean_inverse(Tokens{2048}));
}

TEST(InverseTable, IsSmall) {
  EXPECT_LE(inverse_table().bytes(), std::size_t{512} << 10);
}

}  // namespace
}  // namespace tailrace::length
