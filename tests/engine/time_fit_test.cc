#include "tailrace/engine/time_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tailrace/core/rng.h"

namespace tailrace::engine {
namespace {

using testing::HasSubstr;

std::vector<IterationSample> line(double alpha, double beta, double knee,
                                  const std::vector<double>& tokens) {
  std::vector<IterationSample> samples;
  for (const double n : tokens) samples.push_back({n, alpha + beta * std::max(0.0, n - knee)});
  return samples;
}

const std::vector<double> kTokens{1, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};

TEST(TimeFit, FindsAnyLineWithAKneeAgain) {
  for (const double knee : {0.0, 20.0, 200.0, 1500.0}) {
    for (const double beta : {0.01, 1.0}) {
      const auto fit = fit_iteration_times(line(7, beta, knee, kTokens));
      ASSERT_TRUE(fit);
      EXPECT_NEAR(fit->alpha_ms, 7, 1e-4) << knee;
      EXPECT_NEAR(fit->beta_ms, beta, 1e-5) << knee;
      EXPECT_NEAR(fit->knee_tokens, knee, 0.05) << knee;
      EXPECT_LT(fit->worst_error, 1e-5);
    }
  }
}

TEST(TimeFit, FindsTheLineUnderNoise) {
  Rng rng(5);
  auto samples = line(10, 0.07, 130, kTokens);
  for (auto& sample : samples) sample.ms *= std::exp(0.02 * rng.normal());
  const auto fit = fit_iteration_times(samples);
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->alpha_ms, 10, 0.3);
  EXPECT_NEAR(fit->beta_ms, 0.07, 0.003);
  EXPECT_NEAR(fit->knee_tokens, 130, 12);
  EXPECT_GT(fit->rms_error, 0.005);
  EXPECT_LT(fit->rms_error, 0.03);
}

TEST(TimeFit, OfAPublishedProfileIsNearerThanItsPreset) {
  // Llama-3-8B on an A100 (see presets_test.cc): the preset is up to 26 % off.
  const std::vector<IterationSample> samples{{1, 9.8},    {32, 11.1},  {64, 11.4},
                                             {128, 13.5}, {256, 20.0}, {512, 35.5},
                                             {1024, 77},  {2048, 150}, {4096, 281}};
  const auto fit = fit_iteration_times(samples);
  ASSERT_TRUE(fit);
  EXPECT_LT(fit->worst_error, 0.12);
  EXPECT_GT(fit->worst_error, 0.02);
}

TEST(TimeFit, OfTimesThatDoNotGrowHasNoSlope) {
  const auto fit = fit_iteration_times(std::vector<IterationSample>{{1, 5}, {10, 5}, {100, 5}});
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->alpha_ms, 5, 1e-9);
  EXPECT_EQ(fit->beta_ms, 0);
  const auto falling = fit_iteration_times(std::vector<IterationSample>{{1, 6}, {10, 5}, {100, 4}});
  ASSERT_TRUE(falling);
  EXPECT_EQ(falling->beta_ms, 0);
}

TEST(TimeFit, DoesNotGoBelowZeroForTimesThatGrowFromNothing) {
  const auto fit =
      fit_iteration_times(std::vector<IterationSample>{{10, 1}, {100, 11}, {1000, 111}});
  ASSERT_TRUE(fit);
  EXPECT_GE(fit->alpha_ms, 0);
  EXPECT_GT(fit->beta_ms, 0);
}

TEST(TimeFit, RefusesWhatCannotBeFitted) {
  const auto error = [](std::vector<IterationSample> samples) {
    const auto fit = fit_iteration_times(samples);
    return fit ? "" : fit.error().message;
  };
  EXPECT_THAT(error({{1, 2}, {2, 3}}), HasSubstr("give 3 to 1000"));
  EXPECT_THAT(error(std::vector<IterationSample>(1001)), HasSubstr("give 3 to 1000"));
  EXPECT_THAT(error({{1, 2}, {1, 3}, {4, 5}}), HasSubstr("measured twice"));
  EXPECT_THAT(error({{0, 2}, {1, 3}, {4, 5}}), HasSubstr("0 tokens"));
  EXPECT_THAT(error({{1, 0}, {2, 3}, {4, 5}}), HasSubstr("0 ms for 1 tokens"));
  EXPECT_THAT(error({{1, std::nan("")}, {2, 3}, {4, 5}}), HasSubstr("nan ms"));
}

}  // namespace
}  // namespace tailrace::engine
