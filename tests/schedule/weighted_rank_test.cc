#include "schedule/weighted_rank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tailrace::schedule {
namespace {

constexpr std::int64_t kCap = 2048;
constexpr std::int64_t kQuantum = 16;

length::LengthLaw law(double mu, double sigma) {
  return length::LengthLaw::log_t(mu, sigma).value();
}

/// The definition, token by token.
double brute(const length::LengthLaw& law, std::int64_t age, double exponent) {
  double service = 0, reward = 0, least = INFINITY;
  for (std::int64_t k = age; k < kCap; ++k) {
    const double now = law.survival(static_cast<double>(k));
    const double next = k + 1 == kCap ? 0 : law.survival(static_cast<double>(k + 1));
    service += now;
    reward += (now - next) * std::pow(static_cast<double>(k + 1), -exponent);
    const bool served = k + 1 - age >= kQuantum || k + 1 == kCap;
    if (served && reward > 0) least = std::min(least, service / reward);
  }
  return std::pow(least, 1 / (1 + exponent));
}

TEST(WeightedRank, AgreesWithItsDefinition) {
  for (const double exponent : {0.0, 0.5, 0.7, 1.0}) {
    for (const auto& [mu, sigma] : {std::pair{3.0, 0.5}, {4.6, 0.75}, {5.2, 0.2}, {7.0, 1.0}}) {
      WeightedRank rank(law(mu, sigma), Tokens{kCap}, Tokens{kQuantum}, exponent);
      for (const std::int64_t age : {0, 1, 7, 40, 41, 150, 333, 900, 1900, 2040, 2047}) {
        const double expected = brute(law(mu, sigma), age, exponent);
        EXPECT_NEAR(rank.at(Tokens{age}) / expected, 1, 0.04)
            << "mu " << mu << ", sigma " << sigma << ", exponent " << exponent << ", age " << age;
      }
    }
  }
}

TEST(WeightedRank, KnownLengthHasTheRootOfWhatIsLeftTimesItsWeight) {
  WeightedRank rank(law(std::log(400), 1e-4), Tokens{kCap}, Tokens{1}, 1);
  EXPECT_NEAR(rank.at(Tokens{0}), 400, 0.05 * 400);
  EXPECT_NEAR(rank.at(Tokens{300}), std::sqrt(100.0 * 400), 0.1 * 200);
}

TEST(WeightedRank, IsFiniteWhereTheLawLeavesNoChance) {
  WeightedRank rank(law(2, 0.001), Tokens{kCap}, Tokens{kQuantum}, 0.7);
  for (std::int64_t age = 0; age < kCap; age += 13) {
    EXPECT_TRUE(std::isfinite(rank.at(Tokens{age}))) << age;
    EXPECT_GT(rank.at(Tokens{age}), 0) << age;
  }
}

TEST(WeightedRank, ShortestCapHasOneAge) {
  WeightedRank rank(law(5, 1), Tokens{1}, Tokens{kQuantum}, 0.7);
  EXPECT_NEAR(rank.at(Tokens{0}), 1, 1e-9);
}

}  // namespace
}  // namespace tailrace::schedule
