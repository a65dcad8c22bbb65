// Does the default estimator learn an emulated engine from nothing, as docs/capacity-accuracy.md
// says? A few of its runs.
#include <gtest/gtest.h>

#include <cmath>

#include "capacity/learning_injection.h"
#include "capacity/learning_runs.h"

namespace tailrace::accuracy {
namespace {

Subject subject(std::string_view name) {
  for (Subject& s : learning_subjects()) {
    if (s.name == name) return s;
  }
  ADD_FAILURE() << "there is no server " << name;
  return {};
}

Pattern pattern(const Subject& subject, std::string_view name) {
  for (Pattern& p : learning_patterns(subject)) {
    if (p.name == name) return p;
  }
  ADD_FAILURE() << "there is no load " << name;
  return {};
}

constexpr const char* kRealServers[] = {"Qwen-14B H100", "Llama-8B H100", "h100-8b",
                                        "a100-8b",       "h100-70b-tp4",  "a100-70b-tp4"};

Score learn(std::string_view server, std::string_view load, Feed feed, Columns columns) {
  Feeder feeder(subject(server), 1'000);
  const Pattern loads = pattern(feeder.subject(), load);
  return score(feeder.subject(), feeder.feed(loads, feed, columns, 1), loads,
               tune::EstimatorKind::kWindowed);
}

TEST(Learning, FindsTheRateOfAServerWhoseLoadVaries) {
  for (const char* server : kRealServers) {
    const Score s = learn(server, "sawtooth 0.1 to 0.6", Feed::kSteady, Columns::kAll);
    ASSERT_TRUE(s.error[0] && s.error[1] && s.error[2]) << server;
    EXPECT_LT(std::fabs(*s.error[0]), 0.30) << server;
    EXPECT_LT(std::fabs(*s.error[1]), 0.15) << server;
    EXPECT_LT(std::fabs(*s.error[2]), 0.05) << server;
    EXPECT_TRUE(s.covered[2].value_or(false)) << server;
    EXPECT_TRUE(s.identified) << server;
  }
}

TEST(Learning, NoiseOfThreePercentDoesNotHideTheRate) {
  for (const char* server : kRealServers) {
    for (const char* load : {"ramp 0.02 to 0.70", "two pods 0.15, 0.45"}) {
      const Score s = learn(server, load, Feed::kNoise, Columns::kBare);
      ASSERT_TRUE(s.error[0] && s.error[1] && s.error[2]) << server << ", " << load;
      EXPECT_LT(std::fabs(*s.error[0]), 0.30) << server << ", " << load;
      EXPECT_LT(std::fabs(*s.error[1]), 0.15) << server << ", " << load;
      EXPECT_LT(std::fabs(*s.error[2]), 0.05) << server << ", " << load;
    }
  }
}

TEST(Learning, ConstantLoadIsAnsweredByWhatRealServersHaveInCommon) {
  for (const char* server : kRealServers) {
    const Score s = learn(server, "constant 0.10", Feed::kNoise, Columns::kBare);
    ASSERT_TRUE(s.error[2]) << server;
    EXPECT_LT(std::fabs(*s.error[2]), 0.15) << server;
    EXPECT_FALSE(s.identified) << server;
    EXPECT_TRUE(s.covered[2].value_or(false)) << server;
  }
}

TEST(Learning, AnUnusualServerAtConstantLoadIsCalledUnidentifiedAndTheIntervalHoldsIt) {
  const Score s = learn("granite sample", "constant 0.10", Feed::kSteady, Columns::kBare);
  EXPECT_FALSE(s.identified);
  EXPECT_TRUE(s.covered[2].value_or(false));
}

TEST(Learning, WhatOneMoreSequenceAddsIdentifiesAnUnusualServerAtConstantLoad) {
  for (const Feed feed : {Feed::kSteady, Feed::kNoise}) {
    const Score s = learn("granite sample", "constant 0.10", feed, Columns::kAll);
    for (const auto& error : s.error) {
      ASSERT_TRUE(error);
      EXPECT_LT(std::fabs(*error), 0.10);
    }
    EXPECT_TRUE(s.identified);
    EXPECT_TRUE(s.covered[2].value_or(false));
  }
}

TEST(Learning, LongAnswersThatShareASmallBatchDoNotMislead) {
  const Score s = learn("granite sample", "sawtooth, heavy tails", Feed::kSteady, Columns::kAll);
  ASSERT_TRUE(s.error[2]);
  EXPECT_LT(std::fabs(*s.error[2]), 0.08);
}

TEST(Learning, ConstantLoadLeavesADirectionUnseenAndSaysSo) {
  const Score s = learn("Llama-8B H100", "constant 0.30", Feed::kNoise, Columns::kBare);
  ASSERT_TRUE(s.error[2]);
  EXPECT_LT(std::fabs(*s.error[2]), 0.15);
  EXPECT_FALSE(s.identified);
  EXPECT_TRUE(s.covered[2].value_or(false));
  EXPECT_GT(s.width[2], 0.2);
}

TEST(Learning, ADoublingOfAlphaIsFollowedWithinTenCycles) {
  Doubling doubling(subject("Llama-8B H100"));
  for (const bool varying : {false, true}) {
    for (const double noise : {0.0, 0.03}) {
      const Followed f = doubling.follow(varying, Columns::kAll, noise, 1);
      ASSERT_TRUE(f.cycles) << varying << ", " << noise;
      EXPECT_LE(*f.cycles, 10) << varying << ", " << noise;
      EXPECT_LT(std::fabs(f.error_at_end), varying ? 0.05 : 0.15) << varying << ", " << noise;
    }
  }
}

TEST(Learning, SaturatedAndBrokenReportsMoveNothing) {
  const Subject server = subject("Llama-8B H100");
  Feeder feeder(server, 2'000);
  Pattern loads = pattern(server, "sawtooth 0.1 to 0.6");
  loads.cycles.resize(20);
  for (const Columns columns : {Columns::kAll, Columns::kBare}) {
    const auto fed = feeder.feed(loads, Feed::kSteady, columns, 1);
    for (const Bad& bad : bad_cycles(server, fed.back().back())) {
      auto estimator = tune::make_estimator(tune_config(server, tune::EstimatorKind::kWindowed));
      ASSERT_TRUE(estimator);
      for (const auto& cycle : fed) (*estimator)->update(cycle);
      const auto before = (*estimator)->current();
      const auto during = (*estimator)->update(bad.cycle);
      EXPECT_EQ(during.values, before.values) << bad.name;
      EXPECT_FALSE(during.accepted) << bad.name;
      EXPECT_FALSE(during.reason.empty()) << bad.name;
    }
  }
}

}  // namespace
}  // namespace tailrace::accuracy
