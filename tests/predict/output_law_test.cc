#include "predict/output_law.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "predict/calibration.h"
#include "predict/log_t_score.h"
#include "tailrace/core/rng.h"

namespace tailrace::predict {
namespace {

const PredictorOptions kOptions;
const Law kVague = {5, 0};

double log_mass(const Bins& law, double tokens) {
  const std::size_t bin = bin_of(tokens);
  return std::log(static_cast<double>(law[bin])) - std::log(kEdge[bin] - kEdge[bin - 1]);
}

TEST(OutputLaw, StartsFromTheGivenLocationAndScale) {
  OutputLaw output(kOptions);
  const Bins law = output.consult({}, {4, std::log(0.5)});
  EXPECT_NEAR(std::log(quantile(law, 0.5)), 4, 0.1);
}

TEST(OutputLaw, LearnsAGroupOfTwoModesThatNoLogTCanShow) {
  OutputLaw output(kOptions);
  Rng rng(1);
  RequestFeatures features;
  features.system_fingerprint = 5;
  const auto draw = [&] {
    return std::llround((rng.below(2) == 0 ? 8 : 700) * std::exp(0.1 * rng.normal()));
  };
  for (int i = 0; i < 1500; ++i) {
    output.consult(features, kVague);
    output.learn({Tokens(draw()), false}, 1);
  }
  const Bins law = output.consult(features, kVague);
  EXPECT_NEAR(cumulative(law, 100), 0.5, 0.06);
  EXPECT_LT(cumulative(law, 400) - cumulative(law, 20), 0.05);
}

TEST(OutputLaw, AnswersThatGoOnAreNotTakenForShortOnes) {
  // The first to end are the short ones: of twenty answers two have ended, the others go on.
  OutputLaw told(kOptions);
  OutputLaw untold(kOptions);
  RequestFeatures features;
  for (OutputLaw* output : {&told, &untold}) {
    for (int i = 0; i < 2; ++i) {
      output->consult(features, kVague);
      output->learn({Tokens(20), false}, 1);
    }
  }
  for (int i = 0; i < 18; ++i) told.learn_running(features, Tokens(512), Tokens(0), 1);
  const double with = 1 - cumulative(told.consult(features, kVague), 512);
  const double without = 1 - cumulative(untold.consult(features, kVague), 512);
  EXPECT_GT(with, without + 0.1);
}

TEST(OutputLaw, AReportInPassingLeavesNoTraceAfterTheEnd) {
  OutputLaw reported(kOptions);
  OutputLaw plain(kOptions);
  RequestFeatures features;
  Rng rng(7);
  for (int i = 0; i < 50; ++i) {
    const Tokens tokens(600 + static_cast<std::int64_t>(rng.below(900)));
    for (OutputLaw* output : {&reported, &plain}) output->consult(features, kVague);
    reported.learn_running(features, Tokens(512), Tokens(0), 1);
    reported.learn_running(features, Tokens(590), Tokens(512), 1);
    reported.take_back(features, Tokens(590), 1);
    reported.consult(features, kVague);
    reported.learn({tokens, false}, 1);
    plain.learn({tokens, false}, 1);
  }
  const Bins a = reported.consult(features, kVague);
  const Bins b = plain.consult(features, kVague);
  for (const double p : {0.1, 0.5, 0.9}) EXPECT_NEAR(quantile(a, p) / quantile(b, p), 1, 0.02) << p;
}

TEST(OutputLaw, LosesToNoneOfItsPlainMembersByMoreThanAFewNats) {
  // Predictions without any skill: the group's histogram is best. Predictions that are right: they
  // are. In both the mix must be near, added up over the whole pass.
  for (const bool skilled : {false, true}) {
    OutputLaw output(kOptions);
    OutputLaw histogram({.output = Output::kBinned});
    Rng rng(2);
    RequestFeatures features;
    double lost_to_histogram = 0;
    double lost_to_log_t = 0;
    for (int i = 0; i < 1500; ++i) {
      const double mu = 4.5 + 1.5 * rng.uniform();
      const double truth = skilled ? mu : 4.5 + 1.5 * rng.uniform();
      const double tokens = std::ceil(std::exp(truth + 0.3 * rng.student_t(3.5)) + 1);
      const Law law = {mu, std::log(0.3)};
      const double mixed = log_mass(output.consult(features, law), tokens);
      lost_to_histogram += log_mass(histogram.consult(features, law), tokens) - mixed;
      Bins log_t;
      log_t_bins(law.mu, 0.3, log_t);
      lost_to_log_t += log_mass(log_t, tokens) - mixed;
      const Observation seen{Tokens(std::llround(tokens)), false};
      output.learn(seen, 1);
      histogram.learn(seen, 1);
    }
    EXPECT_LT(lost_to_histogram, 20) << skilled;
    EXPECT_LT(lost_to_log_t, 20) << skilled;
  }
}

TEST(OutputLaw, KnowsAPromptThatCameBefore) {
  OutputLaw output(kOptions);
  Rng rng(3);
  RequestFeatures features;
  for (int i = 0; i < 2000; ++i) {
    features.prompt_fingerprint = 1 + rng.below(100);
    const double mu = 3 + 0.03 * static_cast<double>(features.prompt_fingerprint);
    output.consult(features, kVague);
    output.learn({Tokens(std::llround(std::exp(mu + 0.05 * rng.normal()))), false}, 1);
  }
  for (const std::uint64_t prompt : {5U, 50U, 95U}) {
    features.prompt_fingerprint = prompt;
    const Bins law = output.consult(features, kVague);
    EXPECT_NEAR(std::log(quantile(law, 0.5)), 3 + 0.03 * static_cast<double>(prompt), 0.15);
  }
}

TEST(OutputLaw, ATenantsRepeatedPromptsAreItsOwn) {
  OutputLaw output(kOptions);
  Rng rng(4);
  RequestFeatures honest;
  honest.tenant = "honest";
  honest.prompt_fingerprint = 77;
  RequestFeatures liar = honest;
  liar.tenant = "liar";
  for (int i = 0; i < 1000; ++i) {
    output.consult(honest, kVague);
    output.learn({Tokens(std::llround(200 * std::exp(0.2 * rng.normal()))), false}, 1);
    output.consult(liar, kVague);
    output.learn({Tokens(1), false}, 1);
  }
  const Bins law = output.consult(honest, kVague);
  EXPECT_LT(cumulative(law, 20), 0.05);
  EXPECT_NEAR(std::log(quantile(law, 0.5) / 200), 0, 0.15);
}

TEST(ModelCalibration, EachModelEarnsItsOwnTrust) {
  ModelCalibration calibration(100);
  Rng rng(5);
  for (int i = 0; i < 1500; ++i) {
    for (const bool good : {true, false}) {
      const double mu = 5 + rng.normal();
      const double y = (good ? mu : 5 + rng.normal()) + 0.3 * rng.student_t(3.5);
      const char* model = good ? "good" : "bad";
      calibration.remember(model, calibration.outcome(model, {mu, std::log(0.3)}, y, false));
      calibration.adjust(model, {mu, std::log(0.3)}, y, false, 1);
    }
  }
  EXPECT_TRUE(calibration.trusted("good"));
  EXPECT_FALSE(calibration.trusted("bad"));
}

TEST(ModelCalibration, NewModelHasTheSharedDecisionUntilItHasEnoughAnswers) {
  ModelCalibration calibration(100);
  Rng rng(6);
  const auto see = [&](const char* model, double skill, int count) {
    for (int i = 0; i < count; ++i) {
      const double mu = 5 + rng.normal();
      const double y = 5 + skill * (mu - 5) + 0.3 * rng.student_t(3.5);
      calibration.remember(model, calibration.outcome(model, {mu, std::log(0.3)}, y, false));
    }
  };
  EXPECT_FALSE(calibration.trusted("new"));
  see("old", 1, 600);
  EXPECT_TRUE(calibration.trusted("new"));
  see("new", 0, 99);
  EXPECT_TRUE(calibration.trusted("new"));
  see("new", 0, 1);
  EXPECT_FALSE(calibration.trusted("new"));
  EXPECT_TRUE(calibration.trusted("another"));
}

TEST(ModelCalibration, InventedModelNamesKeepItBounded) {
  ModelCalibration calibration(10);
  Rng rng(7);
  for (int i = 0; i < 300; ++i)
    calibration.remember("real", {5, 5 + 0.1 * rng.normal(), 0.8, false});
  for (int i = 0; i < 2000; ++i) {
    calibration.remember("invented " + std::to_string(i), {5, 5, 0, false});
    if (i % 20 == 0) calibration.remember("real", {5, 5, 0.8, false});
  }
  ImageWriter out("models", 1);
  calibration.write(out);
  EXPECT_LT(std::move(out).finish().size(), (ModelCalibration::kModels + 1) * 8192);
}

}  // namespace
}  // namespace tailrace::predict
