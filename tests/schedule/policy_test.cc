#include "tailrace/schedule/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tailrace::schedule {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

length::LengthLaw law(double mu, double sigma) {
  return length::LengthLaw::log_t(mu, sigma).value();
}

Job job(std::optional<length::LengthLaw> law, std::int64_t cap = 2048, Duration arrival = {}) {
  Job job;
  job.id = JobId{1};
  job.arrival = MonoTime{arrival};
  job.cap = Tokens{cap};
  job.law = std::move(law);
  return job;
}

std::unique_ptr<Policy> policy(std::string_view name, const PolicyOptions& options = {}) {
  return make_policy(name, options).value();
}

TEST(Policy, FcfsOrdersByArrivalWhateverTheLaw) {
  const auto fcfs = policy("fcfs");
  EXPECT_LT(fcfs->key_of(job(law(9, 1), 2048, seconds(1))),
            fcfs->key_of(job(law(1, 1), 2048, seconds(2))));
}

TEST(Policy, MeanIsTheExpectedLengthCappedAtTheJobsOwnLimit) {
  const auto mean = policy("mean");
  const auto predicted = law(5, 0.75);
  EXPECT_NEAR(mean->key_of(job(predicted, 2048)) / predicted.capped_mean(2048), 1, 1e-5);
  EXPECT_NEAR(mean->key_of(job(predicted, 64)) / predicted.capped_mean(64), 1, 1e-5);
}

TEST(Policy, MedianIsCappedAtTheJobsOwnLimit) {
  const auto median = policy("median");
  EXPECT_NEAR(median->key_of(job(law(5, 0.75))), std::exp(5.0), 1e-6);
  EXPECT_DOUBLE_EQ(median->key_of(job(law(5, 0.75), 64)), 64);
}

TEST(Policy, RatioIsExpectedLengthOverExpectedInverse) {
  const auto ratio = policy("ratio");
  const auto predicted = law(4, 0.6);
  const double expected = predicted.capped_mean(512) / predicted.mean_inverse(Tokens{512});
  EXPECT_NEAR(ratio->key_of(job(predicted, 512)) / expected, 1, 1e-3);
}

TEST(Policy, TieIsTheLogarithmOfMeanPlusBetaTimesTail) {
  PolicyOptions options;
  options.fixed_beta = 0.3;
  const auto predicted = law(5, 0.5);
  const double score = predicted.capped_mean(2048) + 0.3 * predicted.capped_cvar(0.9, 2048);
  EXPECT_NEAR(policy("tie", options)->key_of(job(predicted)), std::log(score), 1e-5);
}

TEST(Policy, TieWithAnotherLevelTakesTheTailAtThatLevel) {
  PolicyOptions options;
  options.fixed_beta = 1;
  options.cvar_level = 0.5;
  const auto predicted = law(5, 0.5);
  const double score = predicted.capped_mean(2048) + predicted.capped_cvar(0.5, 2048);
  EXPECT_NEAR(policy("tie", options)->key_of(job(predicted)), std::log(score), 1e-12);
}

TEST(Policy, TieScoreShrinksToNineTenthsInThirtySeconds) {
  const auto tie = policy("tie");
  const double now = tie->key_of(job(law(5, 0.5), 2048, seconds(100)));
  const double thirty_seconds_older = tie->key_of(job(law(5, 0.5), 2048, seconds(70)));
  EXPECT_NEAR(std::exp(thirty_seconds_older - now), 0.9, 1e-12);
}

TEST(Policy, TieOvercomesTwiceTheScoreIn197Seconds) {
  PolicyOptions options;
  options.fixed_beta = 0;
  const auto tie = policy("tie", options);
  const Job early_long = job(law(5 + std::log(2.0), 0.01), 100'000, seconds(0));
  EXPECT_GT(tie->key_of(early_long), tie->key_of(job(law(5, 0.01), 100'000, seconds(196))));
  EXPECT_LT(tie->key_of(early_long), tie->key_of(job(law(5, 0.01), 100'000, seconds(199))));
}

TEST(Policy, DecayOfOneSwitchesAgeingOff) {
  PolicyOptions options;
  options.decay = 1;
  const auto tie = policy("tie", options);
  EXPECT_EQ(tie->key_of(job(law(5, 0.5), 2048, seconds(0))),
            tie->key_of(job(law(5, 0.5), 2048, seconds(1'000'000))));
}

TEST(Policy, JobWithoutLawCountsAsLongAsItsCap) {
  for (const auto name : {"mean", "median", "tie", "ratio"}) {
    const auto p = policy(name);
    const double unknown = p->key_of(job(std::nullopt, 500));
    const double surely_the_cap = p->key_of(job(law(30, 0.001), 500));
    EXPECT_NEAR(unknown, surely_the_cap, 1e-9 * std::abs(unknown)) << name;
    EXPECT_LT(p->key_of(job(law(5, 0.5), 500)), unknown) << name;
  }
  PolicyOptions options;
  options.fixed_beta = 0.2;
  EXPECT_DOUBLE_EQ(policy("tie", options)->key_of(job(std::nullopt, 500)), std::log(1.2 * 500));
}

TEST(Policy, ExtremeLawsGiveKeysThatCompare) {
  for (const auto name : policy_names()) {
    const auto p = policy(name);
    for (const double mu : {-700.0, -50.0, 0.0, 50.0, 700.0}) {
      for (const double sigma : {1e-6, 1.0, 1e6}) {
        for (const std::int64_t cap :
             {std::int64_t{1}, std::int64_t{2048}, std::int64_t{1} << 40}) {
          EXPECT_FALSE(std::isnan(p->key_of(job(law(mu, sigma), name == "ratio" ? 2048 : cap))))
              << name << ' ' << mu << ' ' << sigma << ' ' << cap;
        }
      }
    }
  }
}

TEST(Policy, EveryFamilyOfLawIsOrderedByTheSameRules) {
  const double edges[] = {1, 2, 4, 8, 64, 512, 4096};
  const double masses[] = {0.2, 0.1, 0.1, 0.1, 0.2, 0.2, 0.08, 0.02};
  const auto binned = length::LengthLaw::binned(edges, masses).value();
  const length::LengthLaw laws[] = {
      binned, length::LengthLaw::mixture(0.4, law(3, 0.3), law(7, 0.5)).value(),
      length::LengthLaw::mixture(0.5, binned, length::LengthLaw::gamma(2, 300).value()).value(),
      length::LengthLaw::weibull(0.7, 200).value(), length::LengthLaw::lomax(1.3, 90).value()};
  PolicyOptions options;
  options.fixed_beta = 0.3;
  for (const length::LengthLaw& each : laws) {
    SCOPED_TRACE(each.describe());
    const Job waiting = job(each, 1024);
    const double mean = each.capped_mean(1024);
    const double score = mean + 0.3 * each.capped_cvar(0.9, 1024);
    const double ratio = mean / each.mean_inverse(Tokens{1024});
    EXPECT_NEAR(policy("mean")->key_of(waiting) / mean, 1, 1e-5);
    EXPECT_NEAR(policy("median")->key_of(waiting), std::min(each.median(), 1024.0), 1e-9);
    EXPECT_NEAR(policy("ratio")->key_of(waiting) / ratio, 1, 2e-3);
    EXPECT_NEAR(policy("tie", options)->key_of(waiting), std::log(score), 1e-5);
    EXPECT_THAT(policy("tie")->explain(waiting), HasSubstr(each.describe()));
  }
}

TEST(AdaptiveBeta, FollowsEquation12) {
  EXPECT_DOUBLE_EQ(adaptive_beta(0, 32), 0.1);
  EXPECT_DOUBLE_EQ(adaptive_beta(32, 32), 0.1);
  EXPECT_DOUBLE_EQ(adaptive_beta(96, 32), 0.3);
  EXPECT_DOUBLE_EQ(adaptive_beta(160, 32), 0.5);
  EXPECT_DOUBLE_EQ(adaptive_beta(1'000'000, 32), 0.5);
}

TEST(AdaptiveBeta, WithoutSlotsTheLoadIsEndless) {
  EXPECT_DOUBLE_EQ(adaptive_beta(1, 0), 0.5);
  EXPECT_DOUBLE_EQ(adaptive_beta(0, 0), 0.1);
}

TEST(AdaptiveBeta, StepsThroughEveryBucketOnceOnTheWayUpAndDown) {
  const auto tie = policy("tie");
  int steps = 0;
  for (std::size_t waiting = 0; waiting <= 1000; ++waiting) steps += tie->set_load(waiting, 100);
  EXPECT_EQ(steps, 8);  // from 0.1 to 0.5 in steps of 0.05
  for (std::size_t waiting = 1000; waiting-- > 0;) steps += tie->set_load(waiting, 100);
  EXPECT_EQ(steps, 16);
}

TEST(AdaptiveBeta, SaturatesExactlyAtBothEnds) {
  double beta = 0.1;
  for (const double wanted : {0.2, 0.3, 0.46, 0.5}) beta = step_beta(beta, wanted);
  EXPECT_DOUBLE_EQ(beta, 0.5);
  EXPECT_DOUBLE_EQ(step_beta(beta, 0.1), 0.1);
}

TEST(AdaptiveBeta, ReachesAMaximumThatIsNoMultipleOfTheBucket) {
  PolicyOptions options;
  options.beta_max = 0.17;
  EXPECT_DOUBLE_EQ(step_beta(0.15, 0.17, options), 0.17);
  EXPECT_DOUBLE_EQ(step_beta(0.1, 0.17, options), 0.17);
}

TEST(AdaptiveBeta, DoesNotFlickerAroundABorderBetweenBuckets) {
  const auto tie = policy("tie");
  tie->set_load(1500, 1000);  // 0.15
  // The border to the next bucket is at 0.175, where rounding alone would flicker.
  int steps = 0;
  for (int wave = 0; wave < 1000; ++wave) {
    steps += tie->set_load(1740, 1000);
    steps += tie->set_load(1760, 1000);
  }
  EXPECT_EQ(steps, 0);
  EXPECT_TRUE(tie->set_load(1900, 1000));
  for (int wave = 0; wave < 1000; ++wave) {
    steps += tie->set_load(1740, 1000);
    steps += tie->set_load(1760, 1000);
  }
  EXPECT_EQ(steps, 0);
}

TEST(AdaptiveBeta, StaysWhileNoBackendHasASlot) {
  const auto tie = policy("tie");
  EXPECT_TRUE(tie->set_load(1000, 100));
  EXPECT_FALSE(tie->set_load(1000, 0));
  EXPECT_FALSE(tie->set_load(0, 0));
}

TEST(AdaptiveBeta, FixedBetaNeverMoves) {
  PolicyOptions options;
  options.fixed_beta = 0.25;
  const auto tie = policy("tie", options);
  const double before = tie->key_of(job(law(5, 1)));
  EXPECT_FALSE(tie->set_load(1'000'000, 1));
  EXPECT_EQ(tie->key_of(job(law(5, 1))), before);
}

TEST(MakePolicy, UnknownNameListsTheKnownOnes) {
  const auto result = make_policy("sjfx");
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(result.error().message, HasSubstr("sjfx"));
  for (const auto name : policy_names()) {
    EXPECT_THAT(result.error().message, HasSubstr(std::string(name)));
    EXPECT_EQ(policy(name)->name(), name);
  }
}

TEST(MakePolicy, OptionsOutOfRangeAreNamed) {
  const auto message = [](auto change) {
    PolicyOptions options;
    change(options);
    const auto result = make_policy("tie", options);
    return result ? std::string("accepted") : result.error().message;
  };
  const double nan = std::nan("");
  EXPECT_THAT(message([](auto& o) { o.cvar_level = 1; }), HasSubstr("cvar_level"));
  EXPECT_THAT(message([&](auto& o) { o.beta_min = nan; }), HasSubstr("beta_min"));
  EXPECT_THAT(message([](auto& o) { o.beta_max = 0.05; }), HasSubstr("beta_max"));
  EXPECT_THAT(message([](auto& o) { o.beta_slope = -1; }), HasSubstr("beta_slope"));
  EXPECT_THAT(message([](auto& o) { o.beta_bucket = 0; }), HasSubstr("beta_bucket"));
  EXPECT_THAT(message([](auto& o) { o.fixed_beta = -0.1; }), HasSubstr("fixed_beta"));
  EXPECT_THAT(message([](auto& o) { o.decay = 1.1; }), HasSubstr("decay"));
  EXPECT_THAT(message([](auto& o) { o.decay_period = {}; }), HasSubstr("decay_period"));
  EXPECT_EQ(message([](auto&) {}), "accepted");
}

TEST(Policy, ExplainsTheNumbersBehindAKey) {
  PolicyOptions options;
  options.fixed_beta = 0.3;
  EXPECT_THAT(policy("tie", options)->explain(job(law(5, 0.5))), HasSubstr("beta 0.30"));
  EXPECT_THAT(policy("tie", options)->explain(job(std::nullopt, 77)), HasSubstr("cap of 77"));
  EXPECT_THAT(policy("median")->explain(job(law(5, 0.5))), HasSubstr("148.4"));
}

}  // namespace
}  // namespace tailrace::schedule
