// Whatever clients send, memory stays bounded, numbers stay finite, and others keep their laws.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "predict/calibration.h"
#include "predict/hierarchical_prior.h"
#include "predict/histogram_table.h"
#include "predict/log_t_score.h"
#include "predict/prompt_memory.h"
#include "predict/support/generated_prompts.h"
#include "tailrace/predict/predictor.h"

namespace tailrace::predict {
namespace {

using testing::generate_requests;

Prediction ask(Predictor& predictor, const RequestFeatures& features) {
  return predictor.predict(std::span(&features, 1)).front();
}

void expect_sane(const Prediction& prediction) {
  const auto& law = prediction.law;
  double before = 0;
  for (const double p : {0.001, 0.1, 0.5, 0.9, 0.999}) {
    EXPECT_TRUE(std::isfinite(law.quantile(p)));
    EXPECT_GT(law.quantile(p), before);
    before = law.quantile(p);
  }
  EXPECT_GT(law.capped_mean(1000), 0);
  EXPECT_LE(law.capped_mean(1000), 1000);
}

TEST(PredictorBounds, MillionInventedTenantsNeitherGrowNorEvictTheRealOne) {
  HierarchicalPrior prior(5, 1);
  RequestFeatures real;
  real.model = "m";
  real.tenant = "real";
  for (int i = 0; i < 200; ++i) prior.observe(real, log_length(1000), false);
  RequestFeatures invented;
  invented.model = "m";
  for (int i = 0; i < 1'000'000; ++i) {
    invented.tenant = std::to_string(i);
    prior.observe(invented, log_length(20), false);
    if (i % 1000 == 0) prior.observe(real, log_length(1000), false);
  }
  EXPECT_NEAR(prior.predict(real).mu, std::log(1000.0), 0.5);
  invented.tenant = "one more";
  EXPECT_NEAR(prior.predict(invented).mu, std::log(20.0), 0.5);
  ImageWriter out("prior", 1);
  prior.write(out);
  constexpr std::size_t kGroupBytes = 28;
  EXPECT_LT(std::move(out).finish().size(), HierarchicalPrior::kGroups * kGroupBytes + 100);
}

TEST(PredictorBounds, OnlineImageHasABoundWhateverTheTraffic) {
  auto predictor = make_online_predictor({.table_bits = 12});
  Rng rng(1);
  RequestFeatures features;
  for (int i = 0; i < 20'000; ++i) {
    features.tenant = std::to_string(rng.next_u64());
    features.model = std::to_string(i % 1000);
    features.system_fingerprint = rng.next_u64();
    features.prompt_head = "say " + std::to_string(rng.next_u64()) + " " + features.tenant;
    predictor->observe(features, {Tokens(static_cast<std::int64_t>(rng.below(1000))), false});
  }
  const std::size_t model_bytes = 4096U * 16 + 8192 * 28;
  const std::size_t calibration_bytes = (ModelCalibration::kModels + 1) * 8192;
  const std::size_t output_bytes =
      HistogramTable::kGroups * (sizeof(Histogram) + 4) + PromptMemory::kPrompts * 70 + 129 * 720;
  EXPECT_LT(predictor->save().size(), model_bytes + calibration_bytes + output_bytes + 16384);
  expect_sane(ask(*predictor, features));
}

TEST(PredictorBounds, HostileFeaturesGiveFiniteLawsAndDoNoHarm) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  constexpr auto kMin = std::numeric_limits<std::int64_t>::min();
  for (auto* make : {&make_online_predictor, &make_prior_predictor}) {
    auto predictor = make(PredictorOptions{});
    std::vector<RequestFeatures> hostile(5);
    hostile[1].prompt_head = std::string(1 << 20, 'a');
    hostile[1].prompt_tail = std::string(1 << 20, '\xC3');
    hostile[1].prompt_tokens = Tokens(kMax);
    hostile[1].cap = Tokens(kMax);
    hostile[2].temperature = std::numeric_limits<double>::quiet_NaN();
    hostile[2].cap = Tokens(-5);
    hostile[2].cap_is_explicit = true;
    hostile[2].prompt_tokens = Tokens(kMin);
    hostile[3].temperature = std::numeric_limits<double>::infinity();
    hostile[3].turns = std::numeric_limits<int>::min();
    hostile[3].tools = -1;
    hostile[3].stop_sequences = std::numeric_limits<int>::max();
    hostile[3].min_tokens = Tokens(kMin);
    hostile[4].model = std::string(100'000, 'm');
    hostile[4].tenant = std::string("a\0b", 3);
    hostile[4].system_fingerprint = ~std::uint64_t{0};
    for (const std::int64_t length :
         {std::int64_t{0}, std::int64_t{1}, kMax, kMin, std::int64_t{-1}}) {
      for (const bool censored : {false, true}) {
        for (int i = 0; i < 20; ++i) {
          for (const auto& features : hostile)
            predictor->observe(features, {Tokens(length), censored});
        }
        for (const auto& features : hostile) expect_sane(ask(*predictor, features));
      }
    }
    auto again = make(PredictorOptions{});
    EXPECT_TRUE(again->load(predictor->save())) << predictor->name();
  }
}

TEST(PredictorBounds, ObservationThatSaysNothingTeachesNothing) {
  for (auto* make : {&make_online_predictor, &make_prior_predictor}) {
    auto predictor = make(PredictorOptions{.table_bits = 10});
    const std::string before = predictor->save();
    predictor->observe({}, {Tokens(0), true});
    predictor->observe({}, {Tokens(-3), false});
    predictor->observe({}, {Tokens(-3), true});
    EXPECT_EQ(predictor->save(), before) << predictor->name();
  }
}

TEST(PredictorBounds, OptionsOutOfRangeAreBroughtIn) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  for (const PredictorOptions& options :
       {PredictorOptions{.prior_mu = 1e9, .prior_sigma = -1, .table_bits = -4, .min_samples = -9},
        PredictorOptions{
            .prior_mu = kNaN, .prior_sigma = kNaN, .table_bits = 8, .min_samples = 0}}) {
    auto predictor = make_online_predictor(options);
    expect_sane(ask(*predictor, {}));
    predictor->observe({}, {Tokens(10), false});
    expect_sane(ask(*predictor, {}));
  }
}

TEST(PredictorBounds, ThousandsOfAnswersOfOneLengthGiveANarrowLawAndNoNonsense) {
  auto predictor = make_online_predictor({.table_bits = 12});
  RequestFeatures features;
  features.prompt_head = "Yes or no?";
  for (int i = 0; i < 5000; ++i) predictor->observe(features, {Tokens(1), false});
  expect_sane(ask(*predictor, features));
  EXPECT_LT(ask(*predictor, features).law.survival(1), 0.02);
}

}  // namespace
}  // namespace tailrace::predict
