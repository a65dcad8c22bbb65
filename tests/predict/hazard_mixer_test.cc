#include "predict/hazard_mixer.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "tailrace/core/rng.h"

namespace tailrace::predict {
namespace {

Bins odds_of(double mu, double sigma) {
  Bins mass;
  log_t_bins(mu, sigma, mass);
  Bins odds;
  log_odds(mass, odds);
  return odds;
}

std::size_t draw(Rng& rng, const Bins& mass) {
  double u = rng.uniform();
  for (std::size_t i = 0; i < kBins; ++i) {
    u -= static_cast<double>(mass[i]);
    if (u < 0) return i;
  }
  return kEdges;
}

TEST(HazardMixer, OneLawOfWeightOneComesBack) {
  const std::array<float, 1> start = {1};
  const HazardMixer mixer(start);
  const std::array<Bins, 1> inputs = {odds_of(5, 0.5)};
  Bins mixed;
  mixer.mix(inputs, mixed);
  Bins mass;
  log_t_bins(5, 0.5, mass);
  EXPECT_NEAR(std::accumulate(mixed.begin(), mixed.end(), 0.0), 1, 1e-5);
  for (std::size_t i = 0; i < kBins; ++i) {
    EXPECT_NEAR(static_cast<double>(mixed[i]), static_cast<double>(mass[i]), 1e-3) << i;
  }
}

TEST(HazardMixer, LearnsWhichLawIsRight) {
  const std::array<float, 2> start = {0.5F, 0.5F};
  HazardMixer mixer(start);
  Rng rng(1);
  for (int i = 0; i < 2000; ++i) {
    const double right = 4 + 2 * rng.uniform();
    const double wrong = 4 + 2 * rng.uniform();
    const std::array<Bins, 2> inputs = {odds_of(right, 0.4), odds_of(wrong, 0.4)};
    Bins truth;
    log_t_bins(right, 0.4, truth);
    mixer.learn(inputs, draw(rng, truth), false, 1, 1);
  }
  EXPECT_NEAR(mixer.weights()[0], 1, 0.1);
  EXPECT_NEAR(mixer.weights()[1], 0, 0.1);
}

TEST(HazardMixer, AnswersCutAtRandomTeachTheSame) {
  const std::array<float, 2> start = {0.5F, 0.5F};
  HazardMixer mixer(start);
  Rng rng(2);
  for (int i = 0; i < 4000; ++i) {
    const double right = 4 + 2 * rng.uniform();
    const double wrong = 4 + 2 * rng.uniform();
    const std::array<Bins, 2> inputs = {odds_of(right, 0.4), odds_of(wrong, 0.4)};
    Bins truth;
    log_t_bins(right, 0.4, truth);
    const std::size_t ended = draw(rng, truth);
    const std::size_t cut = 40 + rng.below(40);
    mixer.learn(inputs, std::min(ended, cut), cut < ended, 1, 1);
  }
  EXPECT_NEAR(mixer.weights()[0], 1, 0.1);
  EXPECT_NEAR(mixer.weights()[1], 0, 0.1);
}

TEST(HazardMixer, WeightsStayBoundedWhateverComes) {
  const std::array<float, 3> start = {1, 0, 0};
  HazardMixer mixer(start);
  Rng rng(3);
  for (int i = 0; i < 5000; ++i) {
    std::array<Bins, 3> inputs;
    for (Bins& input : inputs) {
      for (float& x : input) x = static_cast<float>(20 * rng.uniform() - 10);
    }
    mixer.learn(inputs, rng.below(kBins), rng.below(2) == 0, rng.uniform(), 1);
    Bins mixed;
    mixer.mix(inputs, mixed);
    ASSERT_NEAR(std::accumulate(mixed.begin(), mixed.end(), 0.0), 1, 1e-4);
  }
}

}  // namespace
}  // namespace tailrace::predict
