#include "tailrace/evaluate/scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tailrace/core/rng.h"

namespace tailrace::evaluate {
namespace {

/// Half of its mass on 1, a quarter on each of 2 and 3.
length::LengthLaw small_law() {
  const double edges[] = {1, 2, 3};
  const double masses[] = {0.5, 0.25, 0.25, 0};
  return *length::LengthLaw::binned(edges, masses);
}

double score(std::int64_t length, bool censored, std::int64_t cap) {
  return log_score(place_of(small_law(), {Tokens(length), censored}, Tokens(cap)));
}

TEST(LogScore, IsTheMassOnTheWholeToken) {
  EXPECT_NEAR(score(1, false, 10), std::log(0.5), 1e-12);
  EXPECT_NEAR(score(2, false, 10), std::log(0.25), 1e-12);
}

TEST(LogScore, OfOneTokenCountsAllMassUpToOne) {
  const auto law = *length::LengthLaw::log_normal(0, 1);  // half of it lies below one token
  EXPECT_NEAR(log_score(place_of(law, {Tokens(1), false}, Tokens(10))), std::log(0.5), 1e-12);
}

TEST(LogScore, AtTheCapIsTheAtomAboveTheTokenBefore) {
  EXPECT_NEAR(score(2, false, 2), std::log(0.5), 1e-12);
  EXPECT_NEAR(score(2, true, 2), std::log(0.5), 1e-12);
  EXPECT_NEAR(score(9, false, 2), std::log(0.5), 1e-12) << "what exceeds the cap was cut there";
}

TEST(LogScore, OfAnAbortedAnswerIsTheChanceOfAtLeastSoMuch) {
  EXPECT_NEAR(score(3, true, 10), std::log(0.25), 1e-12);
  EXPECT_NEAR(score(1, true, 10), 0, 1e-12);
  EXPECT_NEAR(score(0, true, 10), 0, 1e-12) << "cut before the first token says nothing";
}

TEST(LogScore, OfTheImpossibleIsFiniteAndTerrible) {
  EXPECT_NEAR(score(5, false, 10), std::log(kMassFloor), 1e-9);
}

TEST(Place, SpansTheMassOfItsToken) {
  const Place place = place_of(small_law(), {Tokens(2), false}, Tokens(10));
  EXPECT_NEAR(place.below, 0.5, 1e-12);
  EXPECT_NEAR(place.up_to, 0.75, 1e-12);
  EXPECT_EQ(place_of(small_law(), {Tokens(2), true}, Tokens(10)).up_to, 1);
}

TEST(Pinball, WeighsMissesByTheLevel) {
  EXPECT_DOUBLE_EQ(pinball_loss(100, 110, 0.9), 9);
  EXPECT_DOUBLE_EQ(pinball_loss(110, 100, 0.9), 1);
  EXPECT_DOUBLE_EQ(pinball_loss(100, 100, 0.9), 0);
}

/// By all pairs.
Agreement slow_agreement(const std::vector<double>& a, const std::vector<double>& b) {
  double balance = 0, untied_a = 0, untied_b = 0, right = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const int x = (a[i] > a[j]) - (a[i] < a[j]);
      const int y = (b[i] > b[j]) - (b[i] < b[j]);
      balance += x * y;
      untied_a += x != 0;
      untied_b += y != 0;
      if (y != 0) right += x == 0 ? 0.5 : (x == y ? 1 : 0);
    }
  }
  return {balance / std::sqrt(untied_a * untied_b), right / untied_b};
}

TEST(Agreement, EqualsTheCountOverAllPairsWithManyTies) {
  Rng rng(4);
  for (const std::uint64_t values : {3, 10, 1000}) {
    std::vector<double> a;
    std::vector<double> b;
    for (int i = 0; i < 333; ++i) {
      a.push_back(static_cast<double>(rng.below(values)));
      b.push_back(a.back() + static_cast<double>(rng.below(values)));
    }
    const Agreement fast = order_agreement(a, b);
    const Agreement slow = slow_agreement(a, b);
    EXPECT_NEAR(fast.tau_b, slow.tau_b, 1e-12);
    EXPECT_NEAR(fast.pair_accuracy, slow.pair_accuracy, 1e-12);
  }
}

TEST(Agreement, KnowsTheExtremes) {
  const std::vector<double> up{1, 2, 3, 4};
  const std::vector<double> down{4, 3, 2, 1};
  const std::vector<double> flat{7, 7, 7, 7};
  EXPECT_DOUBLE_EQ(order_agreement(up, up).tau_b, 1);
  EXPECT_DOUBLE_EQ(order_agreement(down, up).tau_b, -1);
  EXPECT_DOUBLE_EQ(order_agreement(down, up).pair_accuracy, 0);
  EXPECT_DOUBLE_EQ(order_agreement(flat, up).tau_b, 0);
  EXPECT_DOUBLE_EQ(order_agreement(flat, up).pair_accuracy, 0.5);
  EXPECT_DOUBLE_EQ(order_agreement({}, {}).tau_b, 0);
}

TEST(RSquared, IsOneForTheTruthAndZeroForItsMean) {
  const std::vector<double> truth{1, 2, 3};
  EXPECT_DOUBLE_EQ(r_squared(truth, truth), 1);
  EXPECT_DOUBLE_EQ(r_squared(std::vector<double>{2, 2, 2}, truth), 0);
  EXPECT_DOUBLE_EQ(r_squared(std::vector<double>{3, 2, 1}, truth), -3);
}

}  // namespace
}  // namespace tailrace::evaluate
