#include "predict/blend.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tailrace/core/rng.h"

namespace tailrace::predict {
namespace {

constexpr double kSigma = 0.3;

TEST(Blend, AddsUpWhatTheFamiliesSayUntilItKnowsBetter) {
  const Blend blend;
  Blend::Parts parts{};
  parts[0] = 0.5;
  parts[3] = -0.2;
  EXPECT_NEAR(blend.sum(parts), 0.3, 1e-12);
}

TEST(Blend, TurnsDownAFamilyThatSaysNothingTrueAndKeepsOneThatDoes) {
  Blend blend;
  Rng rng(1);
  for (int i = 0; i < 2000; ++i) {
    Blend::Parts parts{};
    parts[1] = rng.normal();
    parts[2] = rng.normal();
    const double truth = parts[1] + kSigma * rng.normal();
    blend.learn(parts, truth - blend.sum(parts), kSigma, false, 1);
  }
  EXPECT_NEAR(blend.factor(1), 1, 0.1);
  EXPECT_NEAR(blend.factor(2), 0, 0.1);
}

TEST(Blend, SplitsWhatTwoFamiliesSayTwice) {
  Blend blend;
  Rng rng(2);
  for (int i = 0; i < 2000; ++i) {
    Blend::Parts parts{};
    parts[1] = parts[2] = rng.normal();
    blend.learn(parts, parts[1] + kSigma * rng.normal() - blend.sum(parts), kSigma, false, 1);
  }
  EXPECT_NEAR(blend.factor(1) + blend.factor(2), 1, 0.1);
}

TEST(Blend, StaysFiniteAndMovesLittleWhateverComes) {
  Blend blend;
  Rng rng(3);
  for (int i = 0; i < 20'000; ++i) {
    Blend::Parts parts{};
    for (double& part : parts) part = 20 * rng.uniform() - 10;
    const double before = blend.sum(parts);
    blend.learn(parts, 40 * rng.uniform() - 20, 0.05, i % 3 == 0, 1);
    ASSERT_TRUE(std::isfinite(blend.sum(parts)));
    ASSERT_LT(std::abs(blend.sum(parts) - before), 1.01);
  }
}

TEST(Blend, LightObservationMovesLess) {
  Blend full;
  Blend light;
  Blend::Parts parts{};
  parts[0] = 1;
  full.learn(parts, 1, kSigma, false, 1);
  light.learn(parts, 1, kSigma, false, 1.0 / 16);
  EXPECT_GT(full.factor(0), 1);
  EXPECT_GT(light.factor(0), 1);
  EXPECT_LT(light.factor(0), full.factor(0));
}

}  // namespace
}  // namespace tailrace::predict
