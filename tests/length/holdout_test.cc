#include "tailrace/length/holdout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tailrace/length/sample.h"

namespace tailrace::length {
namespace {

LengthSample answers(const LengthLaw& law, int n, std::uint64_t seed,
                     std::optional<double> cap = std::nullopt) {
  Rng rng(seed);
  LengthSample out{"prompt", {}, cap};
  for (int i = 0; i < n; ++i) {
    const double length = std::ceil(sample(law, rng));
    out.lengths.push_back(cap ? std::min(length, *cap) : length);
  }
  return out;
}

const HoldoutScore& score_of(const HoldoutResult& result, const std::string& law) {
  const auto found = std::find_if(result.scores.begin(), result.scores.end(),
                                  [&](const HoldoutScore& score) { return score.law == law; });
  if (found == result.scores.end()) throw std::runtime_error("no score of " + law);
  return *found;
}

TEST(Holdout, FindsTheTrueFamilyCalibratedAndLikeliest) {
  struct Truth {
    std::string name;
    LengthLaw law;
  };
  for (const Truth& truth : {Truth{"log-t", LengthLaw::log_t(5, 0.5).value()},
                             Truth{"gamma", LengthLaw::gamma(2, 150).value()},
                             Truth{"weibull", LengthLaw::weibull(3, 400).value()}}) {
    const auto result = judge_held_out(answers(truth.law, 8000, 61), {}, Rng(62)).value();
    EXPECT_EQ(result.n_fitted, 4000u);
    EXPECT_EQ(result.n_judged, 4000u);
    const HoldoutScore& right = score_of(result, truth.name);
    // Four standard errors of a share of 4,000, and of the fitted quantile as much again.
    EXPECT_NEAR(right.share_above_p90, 0.10, 4 * std::sqrt(2 * 0.09 / 4000));
    EXPECT_NEAR(right.share_above_p95, 0.05, 4 * std::sqrt(2 * 0.0475 / 4000));
    EXPECT_NEAR(right.share_above_p99, 0.01, 4 * std::sqrt(2 * 0.0099 / 4000));
    if (truth.name != "log-t") {
      EXPECT_LT(right.mean_error, 0.05);
      EXPECT_LT(right.tail_mean_error, 0.05);
    }
    for (const HoldoutScore& other : result.scores) {
      if (!other.log_score) continue;
      EXPECT_LE(*other.log_score, *right.log_score + 0.002) << truth.name << ' ' << other.law;
    }
  }
}

TEST(Holdout, ScoresAWholeLawByTheMassOfEachLength) {
  // Half are 1 and half are 2 in both halves, whichever way they fall: the bins know it.
  LengthSample sample{"coin", {}, std::nullopt};
  for (int i = 0; i < 2000; ++i) sample.lengths.push_back(1 + i % 2);
  const auto result = judge_held_out(sample, {}, Rng(63)).value();
  EXPECT_NEAR(score_of(result, "binned").log_score.value(), std::log(0.5), 0.01);
}

TEST(Holdout, PrefersLawsWithTwoModesWhereThereAreTwo) {
  const LengthLaw law = LengthLaw::mixture(0.5, LengthLaw::log_normal(4, 0.15).value(),
                                           LengthLaw::log_normal(6, 0.15).value())
                            .value();
  const auto result = judge_held_out(answers(law, 400, 64), {}, Rng(65)).value();
  for (const char* one : {"log-t", "log-normal", "gamma", "weibull", "exponential"}) {
    EXPECT_GT(score_of(result, "mixture").log_score.value(),
              score_of(result, one).log_score.value() + 0.3);
    EXPECT_GT(score_of(result, "binned").log_score.value(),
              score_of(result, one).log_score.value() + 0.3);
  }
}

TEST(Holdout, JudgesUnderTheSamplesOwnCapElseFourTimesTheLongestFitted) {
  const LengthLaw law = LengthLaw::log_t(5, 0.8).value();
  const LengthSample free = answers(law, 100, 66);
  const double longest = *std::max_element(free.lengths.begin(), free.lengths.end());
  const double cap = judge_held_out(free, {}, Rng(1)).value().cap;
  EXPECT_LE(cap, 4 * longest);
  EXPECT_EQ(std::fmod(cap, 4), 0);
  // A cap cuts what the log-t law says about the tail: no error can come from beyond it.
  const auto capped = judge_held_out(answers(law, 2000, 66, 400), {}, Rng(1)).value();
  EXPECT_EQ(capped.cap, 400);
  EXPECT_LT(score_of(capped, "log-t").tail_mean_error, 0.01);
  EXPECT_EQ(score_of(capped, "log-t").share_above_p99, 0);
}

TEST(Holdout, GivesTheSameAnswerForTheSameSeedAndOtherHalvesForAnother) {
  const LengthSample sample = answers(LengthLaw::log_t(5, 0.5).value(), 101, 67);
  const auto first = judge_held_out(sample, {}, Rng(1)).value();
  const auto again = judge_held_out(sample, {}, Rng(1)).value();
  const auto other = judge_held_out(sample, {}, Rng(2)).value();
  EXPECT_EQ(first.n_fitted, 51u);
  EXPECT_EQ(first.n_judged, 50u);
  EXPECT_EQ(score_of(first, "gamma").log_score, score_of(again, "gamma").log_score);
  EXPECT_NE(score_of(first, "gamma").log_score, score_of(other, "gamma").log_score);
}

TEST(Holdout, NamesTheLawsThatHaveNoMaximum) {
  const LengthSample sample{"constant", std::vector<double>(20, 50), std::nullopt};
  const auto result = judge_held_out(sample, {}, Rng(1)).value();
  EXPECT_NE(std::find(result.degenerate.begin(), result.degenerate.end(), "log-t"),
            result.degenerate.end());
  EXPECT_EQ(score_of(result, "empirical").tail_mean_error, 0);
  EXPECT_FALSE(score_of(result, "empirical").log_score);
}

TEST(Holdout, NeedsFourLengths) {
  const auto result = judge_held_out({"short", {5, 6, 7}, std::nullopt}, {}, Rng(1));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(result.error().message.find("\"short\""), std::string::npos);
}

}  // namespace
}  // namespace tailrace::length
