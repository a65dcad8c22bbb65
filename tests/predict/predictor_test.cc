// What the predictors learn from generated prompts whose laws are known.
#include "tailrace/predict/predictor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "predict/support/generated_prompts.h"

namespace tailrace::predict {
namespace {

using testing::generate_requests;
using testing::GeneratedRequest;
using testing::with_lengths_permuted;

Prediction ask(Predictor& predictor, const RequestFeatures& features) {
  return predictor.predict(std::span(&features, 1)).front();
}

double median_of(Predictor& predictor, const RequestFeatures& features) {
  return ask(predictor, features).law.median();
}

struct Told {
  double median = 0;
  double low = 0;  // the central 80 % interval
  double high = 0;
  double length = 0;
  bool calibrated = false;
};

/// Predict, then learn, in order; what was said before each truth was known.
std::vector<Told> prequential(Predictor& predictor, const std::vector<GeneratedRequest>& requests) {
  std::vector<Told> told;
  for (const auto& request : requests) {
    const Prediction p = ask(predictor, request.features);
    told.push_back({p.law.median(), p.law.quantile(0.1), p.law.quantile(0.9),
                    static_cast<double>(request.length), p.calibrated});
    predictor.observe(request.features, {Tokens(request.length), false});
  }
  return told;
}

double pair_accuracy(const std::vector<Told>& told, std::size_t from) {
  double right = 0;
  double pairs = 0;
  for (std::size_t a = from; a < told.size(); ++a) {
    for (std::size_t b = from; b < a; ++b) {
      if (told[a].length == told[b].length) continue;
      pairs += 1;
      const double truth = told[a].length - told[b].length;
      right += truth * (told[a].median - told[b].median) > 0 ? 1 : 0;
    }
  }
  return right / pairs;
}

double coverage80(const std::vector<Told>& told, std::size_t from) {
  double inside = 0;
  for (std::size_t i = from; i < told.size(); ++i) {
    // A whole token stands for the unit that ends in it.
    const double length = told[i].length - 0.5;
    inside += length >= told[i].low && length <= told[i].high ? 1 : 0;
  }
  return inside / static_cast<double>(told.size() - from);
}

std::size_t calibrated_count(const std::vector<Told>& told, std::size_t from) {
  return static_cast<std::size_t>(std::count_if(told.begin() + static_cast<std::ptrdiff_t>(from),
                                                told.end(),
                                                [](const Told& t) { return t.calibrated; }));
}

TEST(OnlinePredictor, RanksAnswersOfUnseenPromptsByTheirText) {
  auto predictor = make_online_predictor();
  const auto told = prequential(*predictor, generate_requests(Rng(1), 2000));
  EXPECT_GT(pair_accuracy(told, 1000), 0.85);
  EXPECT_EQ(calibrated_count(told, 1000), 1000U);
}

TEST(OnlinePredictor, LearnsTheNumberOfWordsThatAPromptAsksFor) {
  auto predictor = make_online_predictor();
  prequential(*predictor, generate_requests(Rng(2), 4000));
  RequestFeatures features = generate_requests(Rng(3), 1).front().features;
  const auto essay = [&](const char* words) {
    features.prompt_head = std::string("Write an essay about bread of about ") + words + " words.";
    features.prompt_tail = features.prompt_head;
    return median_of(*predictor, features);
  };
  EXPECT_NEAR(std::log(essay("50")), std::log(65.0), 0.4);
  EXPECT_NEAR(std::log(essay("800")), std::log(1040.0), 0.4);
}

TEST(OnlinePredictor, CentralIntervalsHoldTheirShare) {
  auto predictor = make_online_predictor();
  const auto told = prequential(*predictor, generate_requests(Rng(4), 3000));
  EXPECT_NEAR(coverage80(told, 1000), 0.8, 0.04);
}

TEST(OnlinePredictor, SaysNothingIsCalibratedBeforeEnoughSamples) {
  auto predictor = make_online_predictor({.min_samples = 200});
  const auto told = prequential(*predictor, generate_requests(Rng(5), 600));
  for (std::size_t i = 0; i < 200; ++i) EXPECT_FALSE(told[i].calibrated) << i;
  EXPECT_TRUE(told.back().calibrated);
}

TEST(OnlinePredictor, IsNotTrustedWhenLengthsHaveNothingToDoWithPrompts) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    auto predictor = make_online_predictor();
    const auto told = prequential(
        *predictor, with_lengths_permuted(generate_requests(Rng(seed), 2000), Rng(seed + 100)));
    EXPECT_LE(calibrated_count(told, 0), 40U) << "seed " << seed;
  }
}

TEST(OnlinePredictor, LosesTrustWhenPromptsStopTellingLengths) {
  auto predictor = make_online_predictor();
  prequential(*predictor, generate_requests(Rng(6), 1000));
  const auto told =
      prequential(*predictor, with_lengths_permuted(generate_requests(Rng(7), 2000), Rng(8)));
  EXPECT_TRUE(told.front().calibrated);
  EXPECT_EQ(calibrated_count(told, 1000), 0U);
}

TEST(OnlinePredictor, FollowsAModelThatBecomesFourTimesMoreTalkative) {
  auto predictor = make_online_predictor();
  prequential(*predictor, generate_requests(Rng(9), 2000));
  auto after = generate_requests(Rng(10), 2000);
  for (auto& request : after) request.length *= 4;
  const auto told = prequential(*predictor, after);
  double off = 0;
  for (std::size_t i = 1000; i < told.size(); ++i) {
    off += std::log(told[i].length / told[i].median) / 1000;
  }
  EXPECT_LT(std::abs(off), 0.15);
  EXPECT_NEAR(coverage80(told, 1000), 0.8, 0.06);
  EXPECT_EQ(calibrated_count(told, 1500), 500U);
}

TEST(OnlinePredictor, CutAnswersRaiseTheLawAndDoNotBiasIt) {
  // Most answers over 400 of a law with median 500 are cut there: read as complete, the median is
  // 400.
  for (const bool prior_only : {false, true}) {
    auto predictor = prior_only ? make_prior_predictor() : make_online_predictor();
    Rng rng(11);
    RequestFeatures features;
    features.model = "m";
    features.prompt_head = "Tell me a story.";
    for (int i = 0; i < 3000; ++i) {
      const double length = 500 * std::exp(0.5 * rng.student_t(3.5));
      const bool cut = length > 400 && rng.below(10) != 0;
      predictor->observe(features, {Tokens(cut ? 400 : std::llround(std::max(length, 1.0))), cut});
    }
    const auto law = ask(*predictor, features).law;
    EXPECT_NEAR(std::log(law.median()), std::log(500.0), 0.15) << predictor->name();
    EXPECT_NEAR(std::log(law.quantile(0.8) / law.quantile(0.2)), 2 * 0.5 * 0.941, 0.25)
        << predictor->name();
  }
}

TEST(OnlinePredictor, OneMadLengthHardlyMovesTheLaw) {
  auto predictor = make_online_predictor();
  const auto requests = generate_requests(Rng(12), 1000);
  prequential(*predictor, requests);
  const double before = median_of(*predictor, requests.back().features);
  predictor->observe(requests.back().features, {Tokens(1'000'000'000), false});
  EXPECT_NEAR(std::log(median_of(*predictor, requests.back().features) / before), 0, 0.2);
}

TEST(OnlinePredictor, SameCallsGiveTheSameBytes) {
  const auto requests = generate_requests(Rng(13), 500);
  auto a = make_online_predictor({.table_bits = 14});
  auto b = make_online_predictor({.table_bits = 14});
  prequential(*a, requests);
  for (const auto& request : requests)
    b->observe(request.features, {Tokens(request.length), false});
  EXPECT_EQ(a->save(), b->save());
}

// A change here means that images saved before no longer fit: raise their version.
TEST(OnlinePredictor, FeaturesAndStepsAreThoseOfTheImageVersion) {
  auto predictor = make_online_predictor();
  prequential(*predictor, generate_requests(Rng(17), 500));
  RequestFeatures features;
  features.model = "model-a";
  features.prompt_head = "Explain the 3 phases of the moon.";
  const auto law = ask(*predictor, features).law;
  EXPECT_NEAR(law.quantile(0.1), 39.8911, 1e-3);
  EXPECT_NEAR(law.median(), 88.3070, 1e-3);
  EXPECT_NEAR(law.quantile(0.9), 203.0853, 1e-3);
}

TEST(OnlinePredictor, BatchGivesWhatSinglesGive) {
  auto predictor = make_online_predictor();
  const auto requests = generate_requests(Rng(14), 300);
  prequential(*predictor, requests);
  std::vector<RequestFeatures> batch;
  for (const auto& request : requests) batch.push_back(request.features);
  const auto together = predictor->predict(batch);
  ASSERT_EQ(together.size(), batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    EXPECT_EQ(together[i].law, ask(*predictor, batch[i]).law);
  }
  EXPECT_TRUE(predictor->predict({}).empty());
}

TEST(PriorPredictor, TellsModelsTenantsAndSystemPromptsApart) {
  auto predictor = make_prior_predictor();
  Rng rng(15);
  RequestFeatures plain;
  plain.model = "small";
  RequestFeatures large = plain;
  large.model = "large";
  RequestFeatures tenant = plain;
  tenant.tenant = "reports";
  RequestFeatures system = plain;
  system.system_fingerprint = 77;
  for (int i = 0; i < 600; ++i) {
    const auto see = [&](const RequestFeatures& features, double median) {
      const double length = median * std::exp(0.3 * rng.student_t(3.5));
      predictor->observe(features, {Tokens(std::max(1LL, std::llround(length))), false});
    };
    see(plain, 100);
    see(large, 400);
    see(tenant, 900);
    see(system, 20);
  }
  EXPECT_NEAR(std::log(median_of(*predictor, plain)), std::log(100.0), 0.25);
  EXPECT_NEAR(std::log(median_of(*predictor, large)), std::log(400.0), 0.25);
  EXPECT_NEAR(std::log(median_of(*predictor, tenant)), std::log(900.0), 0.25);
  EXPECT_NEAR(std::log(median_of(*predictor, system)), std::log(20.0), 0.25);
  EXPECT_TRUE(ask(*predictor, plain).calibrated);
}

TEST(PriorPredictor, NewTenantStartsFromItsModelsLaw) {
  auto predictor = make_prior_predictor();
  RequestFeatures features;
  features.model = "m";
  features.tenant = "old";
  for (int i = 0; i < 500; ++i) predictor->observe(features, {Tokens(200 + i % 50), false});
  features.tenant = "new";
  EXPECT_NEAR(std::log(median_of(*predictor, features)), std::log(225.0), 0.3);
}

TEST(PriorPredictor, WithOneGroupHasNoSkillAndIsNotTrusted) {
  auto predictor = make_prior_predictor();
  Rng rng(16);
  RequestFeatures features;
  for (int i = 0; i < 1000; ++i) {
    predictor->observe(features, {Tokens(static_cast<std::int64_t>(50 + rng.below(500))), false});
  }
  EXPECT_FALSE(ask(*predictor, features).calibrated);
}

TEST(PriorPredictor, GivesTheConfiguredLawBeforeAnythingIsKnown) {
  const PredictorOptions options{.prior_mu = 4, .prior_sigma = 0.5};
  for (const auto& predictor : {make_prior_predictor(options)}) {
    const auto prediction = ask(*predictor, {});
    EXPECT_NEAR(prediction.law.as_log_t()->mu, 4, 1e-12);
    EXPECT_NEAR(prediction.law.as_log_t()->sigma, 0.5, 1e-12);
    EXPECT_EQ(prediction.law.as_log_t()->nu, 3.5);
    EXPECT_FALSE(prediction.calibrated);
  }
}

}  // namespace
}  // namespace tailrace::predict
