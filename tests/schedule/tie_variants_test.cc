// TIE as its published code runs it, and as its ablation changes it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tailrace/schedule/waiting_queue.h"

namespace tailrace::schedule {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

length::LengthLaw law(double mu, double sigma) {
  return length::LengthLaw::log_t(mu, sigma).value();
}

Job job(std::uint64_t id, std::optional<length::LengthLaw> law, std::int64_t cap = 2048) {
  Job job;
  job.id = JobId{id};
  job.cap = Tokens{cap};
  job.law = std::move(law);
  return job;
}

std::unique_ptr<Policy> released(std::uint64_t seed = 0) {
  PolicyOptions options;
  options.tie_variant = TieVariant::kReleasedCode;
  options.tie_seed = seed;
  return make_policy("tie", options).value();
}

/// The score that a key stands for; arrival at 0.
double score(const Policy& policy, const Job& job) {
  return std::exp(policy.key_of(job));
}

TEST(TieAsReleased, ScoreIsAWholeNumberNearTheExactOne) {
  const auto tie = released();
  const auto predicted = law(5, 0.5);
  const double exact = predicted.capped_mean(2028) + 0.1 * predicted.capped_cvar(0.9, 2048);
  const double drawn = score(*tie, job(1, predicted));
  EXPECT_NEAR(drawn, std::round(drawn), 1e-9);
  EXPECT_NEAR(drawn / exact, 1, 0.06);  // five standard errors of 10,000 draws
}

TEST(TieAsReleased, ScoreIsAtLeastOne) {
  EXPECT_DOUBLE_EQ(score(*released(), job(1, law(-5, 0.1))), 1);
}

TEST(TieAsReleased, JobsOwnCapIsNotRead) {
  const auto tie = released();
  EXPECT_EQ(tie->key_of(job(1, law(6, 1), 64)), tie->key_of(job(1, law(6, 1), 100'000)));
  EXPECT_DOUBLE_EQ(score(*tie, job(1, std::nullopt, 64)), 2048);
}

TEST(TieAsReleased, MeanIsCappedAt2028AndTailAt2048) {
  // Almost surely at the cap: 2028 + 0.1 · 2048 = 2232.8.
  EXPECT_DOUBLE_EQ(std::round(score(*released(), job(1, law(30, 0.01)))), 2233);
}

TEST(TieAsReleased, DrawsDependOnSeedJobAndAgeAlone) {
  EXPECT_EQ(released(7)->key_of(job(1, law(5, 1))), released(7)->key_of(job(1, law(5, 1))));
  std::set<double> keys;
  for (const std::uint64_t seed : {1u, 2u}) {
    for (const std::uint64_t id : {1u, 2u}) {
      for (const std::int64_t attained : {0, 100}) {
        Job again = job(id, law(6, 1));
        again.attained = Tokens{attained};
        keys.insert(released(seed)->key_of(again));
      }
    }
  }
  EXPECT_GE(keys.size(), 5u);  // of 8: whole scores may meet by chance
}

TEST(TieAsReleased, BetaIsThatOfTheMomentInWhichThePredictionCame) {
  WaitingQueue queue(released(), std::nullopt);
  queue.set_load(30, 32);
  ASSERT_TRUE(queue.push(job(1, std::nullopt)));
  ASSERT_TRUE(queue.push(job(2, std::nullopt)));
  ASSERT_TRUE(queue.set_law(JobId{1}, law(5, 0.5)));
  queue.set_load(200, 32);
  ASSERT_TRUE(queue.set_law(JobId{2}, law(5, 0.5)));
  // (1 + 0.5 r)/(1 + 0.1 r) with r = 3.18: facts/scheduling.md 1.4.
  const double early = std::exp(queue.place(JobId{1}, MonoTime{})->key);
  const double late = std::exp(queue.place(JobId{2}, MonoTime{})->key);
  EXPECT_NEAR(late / early, 1.97, 0.12);
  queue.set_load(0, 32);
  EXPECT_EQ(std::exp(queue.place(JobId{2}, MonoTime{})->key), late);
}

TEST(TieAsReleased, WaitingDecaysTheScoreAsInThePaper) {
  const auto tie = released();
  Job later = job(1, law(5, 0.5));
  later.arrival = MonoTime{seconds(30)};
  EXPECT_NEAR(tie->key_of(later) - tie->key_of(job(1, law(5, 0.5))), std::log(1 / 0.9), 1e-12);
}

TEST(TieAsReleased, SaysWhoseScoreItExplains) {
  EXPECT_THAT(released()->explain(job(1, law(5, 0.5))), HasSubstr("as released"));
}

TEST(UncappedMean, OfALogNormalLawGrowsWithoutRegardToTheCap) {
  PolicyOptions options;
  options.uncapped_mean = true;
  const auto wide = length::LengthLaw::log_normal(6, 2).value();
  EXPECT_NEAR(make_policy("mean", options).value()->key_of(job(1, wide)), std::exp(8), 1e-6);
  options.fixed_beta = 0.5;
  EXPECT_NEAR(score(*make_policy("tie", options).value(), job(1, wide)),
              std::exp(8) + 0.5 * wide.capped_cvar(0.9, 2048), 1e-6);
}

TEST(UncappedMean, IsThatOfEachFamilyThatHasOne) {
  PolicyOptions options;
  options.uncapped_mean = true;
  const auto mean = make_policy("mean", options).value();
  for (const auto& each :
       {length::LengthLaw::gamma(2, 30).value(), length::LengthLaw::weibull(0.8, 50).value(),
        length::LengthLaw::exponential(70).value(), length::LengthLaw::lomax(3, 90).value()}) {
    EXPECT_NEAR(mean->key_of(job(1, each)) / each.capped_mean(1e9), 1, 1e-6) << each.describe();
  }
}

TEST(UncappedMean, LawWithoutAFiniteOneCountsAsNoPrediction) {
  PolicyOptions options;
  options.uncapped_mean = true;
  options.fixed_beta = 0.1;
  for (const auto& each : {law(5, 0.5), length::LengthLaw::lomax(1, 90).value(),
                           length::LengthLaw::log_normal(5, 40).value()}) {
    for (const auto name : {"mean", "tie"}) {
      const auto policy = make_policy(name, options).value();
      EXPECT_EQ(policy->key_of(job(1, each)), policy->key_of(job(1, std::nullopt)))
          << name << ' ' << each.describe();
    }
  }
}

}  // namespace
}  // namespace tailrace::schedule
