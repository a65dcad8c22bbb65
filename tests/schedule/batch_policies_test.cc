// The policies that need to see running jobs or true lengths, and those that weigh and date jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tailrace/schedule/policy.h"

namespace tailrace::schedule {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

length::LengthLaw law(double mu, double sigma) {
  return length::LengthLaw::log_t(mu, sigma).value();
}
length::LengthLaw about(double tokens) {
  return length::LengthLaw::log_normal(std::log(tokens), 1e-3).value();
}

Job job(std::optional<length::LengthLaw> law, std::int64_t attained = 0, Duration arrival = {}) {
  Job job;
  job.id = JobId{1};
  job.arrival = MonoTime{arrival};
  job.prompt_tokens = Tokens{300};
  job.cap = Tokens{2048};
  job.attained = Tokens{attained};
  job.law = std::move(law);
  return job;
}

std::unique_ptr<Policy> policy(std::string_view name, const PolicyOptions& options = {}) {
  return make_policy(name, options).value();
}

TEST(Wspt, OrdersByExpectedLengthPerWeight) {
  const auto wspt = policy("wspt");
  Job important = job(about(400));
  important.weight = 4;
  EXPECT_NEAR(wspt->key_of(important), 100, 0.01);
  EXPECT_LT(wspt->key_of(important), wspt->key_of(job(about(150))));
  important.law.reset();
  EXPECT_DOUBLE_EQ(wspt->key_of(important), 512);
}

TEST(Edf, EarlierDeadlineGoesFirstWhateverTheLength) {
  const auto edf = policy("edf");
  Job soon = job(about(2000));
  soon.deadline = MonoTime{milliseconds(100'000)};
  Job later = job(about(2));
  later.deadline = MonoTime{milliseconds(100'001)};
  EXPECT_LT(edf->key_of(soon), edf->key_of(later));
}

TEST(Edf, ShorterGoesFirstAmongEqualDeadlines) {
  const auto edf = policy("edf");
  Job a = job(about(10));
  Job b = job(about(11));
  a.deadline = b.deadline = MonoTime{seconds(86'400)};
  EXPECT_LT(edf->key_of(a), edf->key_of(b));
  b.deadline = *b.deadline + std::chrono::microseconds(400);  // the same millisecond
  EXPECT_LT(edf->key_of(a), edf->key_of(b));
}

TEST(Edf, JobsWithoutDeadlineComeLastShortestFirst) {
  const auto edf = policy("edf");
  Job dated = job(std::nullopt);
  dated.deadline = MonoTime::max();
  EXPECT_LT(edf->key_of(dated), edf->key_of(job(about(1))));
  EXPECT_LT(edf->key_of(job(about(10))), edf->key_of(job(about(11))));
  EXPECT_LT(edf->key_of(job(about(10))), edf->key_of(job(std::nullopt)));
}

TEST(Sjf, OrdersByTheLengthThatItsLawTells) {
  const auto sjf = policy("sjf");
  EXPECT_NEAR(sjf->key_of(job(about(321))), 321, 0.01);
  EXPECT_EQ(sjf->age_key(job(about(321))), nullptr);
}

TEST(Ltr, OrdersByScoreAloneAndDisplacesNobodyUnlessToldTo) {
  const auto ltr = policy("ltr");
  EXPECT_LT(ltr->key_of(job(about(10), 5)), ltr->key_of(job(about(11), 10)));
  EXPECT_EQ(ltr->age_key(job(about(10))), nullptr);
  PolicyOptions options;
  options.ltr_preemptive = true;
  const auto preemptive = policy("ltr", options);
  const auto key = preemptive->age_key(job(about(10)));
  EXPECT_EQ(key->at(Tokens{0}), preemptive->key_of(job(about(10))));
  EXPECT_EQ(key->at(Tokens{2000}), key->at(Tokens{0}));
}

TEST(Las, LeastAttainedGoesFirstWhateverTheLaw) {
  const auto las = policy("las");
  EXPECT_EQ(las->key_of(job(law(9, 1), 7)), las->key_of(job(std::nullopt, 7)));
  const auto key = las->age_key(job(law(1, 1)));
  double before = -1;
  for (const std::int64_t age : {0, 1, 2, 10, 1000, 1'000'000}) {
    EXPECT_GT(key->at(Tokens{age}), before);
    before = key->at(Tokens{age});
    EXPECT_EQ(before, las->key_of(job(law(1, 1), age)));
  }
}

TEST(Mlfq, DemotesAJobWhenItHasUsedALevelsQuantum) {
  PolicyOptions options;
  options.mlfq_quantum = Tokens{10};
  const auto mlfq = policy("mlfq", options);
  const auto level = [&](std::int64_t attained) {
    return std::exp(mlfq->key_of(job(std::nullopt, attained)));
  };
  EXPECT_NEAR(level(0), 10, 1e-9);
  EXPECT_NEAR(level(9), 10, 1e-9);
  EXPECT_NEAR(level(10), 20, 1e-9);
  EXPECT_NEAR(level(29), 20, 1e-9);
  EXPECT_NEAR(level(30), 40, 1e-9);
  EXPECT_NEAR(level(69), 40, 1e-9);
  EXPECT_NEAR(level(70), 80, 1e-9);
  EXPECT_EQ(mlfq->age_key(job(std::nullopt))->at(Tokens{69}), mlfq->key_of(job(std::nullopt, 69)));
}

TEST(Trail, OrdersByTheMeanResidualAtTheTokensAttained) {
  // facts/scheduling.md 5.4
  const auto trail = policy("trail");
  EXPECT_NEAR(std::exp(trail->key_of(job(law(5, 0.5)))), 194.4058301, 0.2);
  EXPECT_NEAR(std::exp(trail->key_of(job(law(5, 0.5), 64))), 145.1812051, 0.2);
  EXPECT_NEAR(std::exp(trail->key_of(job(law(6, 0.5), 256))), 327.1555861, 0.4);
}

TEST(Trail, RunsOnPastItsShareOfTheFirstPrediction) {
  const auto trail = policy("trail");
  const auto key = trail->age_key(job(law(5, 0.5)));  // 0.8 · 194.4 = 155.5 tokens
  EXPECT_FALSE(key->protected_at(Tokens{155}));
  EXPECT_TRUE(key->protected_at(Tokens{156}));
  EXPECT_LT(key->at(Tokens{156}), trail->key_of(job(about(1))));
  EXPECT_GT(key->at(Tokens{155}), trail->key_of(job(about(1))));
  // Among those, the shorter rest.
  EXPECT_LT(trail->key_of(job(law(5, 0.5), 200)), trail->key_of(job(law(5, 0.5), 1500)));
  EXPECT_THAT(trail->explain(job(law(5, 0.5), 156)), HasSubstr("past its share"));
}

TEST(Trail, ShareOfZeroPreemptsOnlyBeforeTheFirstToken) {
  PolicyOptions options;
  options.trail_preemptible = 0;
  const auto trail = policy("trail", options);
  const auto key = trail->age_key(job(law(5, 0.5)));
  EXPECT_FALSE(key->protected_at(Tokens{0}));
  EXPECT_TRUE(key->protected_at(Tokens{1}));
}

TEST(Elis, CountsDownBetweenPredictionsEveryFiftyTokens) {
  const auto elis = policy("elis");
  const auto predicted = law(5, 0.5);
  const auto left = [&](std::int64_t age) { return std::exp(elis->key_of(job(predicted, age))); };
  const double at_50 = predicted.mean_residual(Tokens{50}, Tokens{2048});
  EXPECT_NEAR(left(50), at_50, 0.2);
  EXPECT_NEAR(left(51), left(50) - 1, 1e-9);
  EXPECT_NEAR(left(99), left(50) - 49, 1e-9);
  EXPECT_NEAR(left(100), predicted.mean_residual(Tokens{100}, Tokens{2048}), 0.2);
}

TEST(Elis, NeverCountsBelowOneToken) {
  const auto elis = policy("elis");
  EXPECT_DOUBLE_EQ(elis->key_of(job(about(30), 49)), 0);
}

/// A waiting job owes the computation of its context, a running one does not.
const PolicyOptions kFreeAdmission = [] {
  PolicyOptions options;
  options.gittins_prefill_weight = 0;
  return options;
}();
/// And gittins ranks by tokens alone.
const PolicyOptions kPlain = [] {
  PolicyOptions options = kFreeAdmission;
  options.gittins_length_exponent = 0;
  options.gittins_decay = 1;
  return options;
}();

TEST(BatchPolicies, AgeKeysAgreeWithTheKeyOfAJobThatHasAttainedAsMuch) {
  for (const auto name : {"gittins", "trail", "elis", "las", "mlfq"}) {
    for (const double sigma : {0.05, 0.3, 0.75, 1.5}) {
      const auto p = policy(name, kFreeAdmission);
      const auto key = p->age_key(job(law(5, sigma), 0, seconds(7)));
      for (const std::int64_t age : {0, 1, 15, 16, 50, 64, 99, 500, 1024, 2040, 2047, 5000}) {
        // Gittins takes the rank of what has not begun from a grid.
        EXPECT_NEAR(key->at(Tokens{age}), p->key_of(job(law(5, sigma), age, seconds(7))),
                    age == 0 ? 0.02 : 1e-12)
            << name << ' ' << sigma << " at " << age;
      }
    }
  }
}

TEST(BatchPolicies, JobWithoutLawHasItsWholeCapLeft) {
  for (const auto name : {"gittins", "elis"}) {
    const auto p = policy(name, kPlain);
    const auto key = p->age_key(job(std::nullopt));
    for (const std::int64_t age : {0, 50, 1000, 2000}) {
      const double left = std::log(static_cast<double>(2048 - age));
      EXPECT_DOUBLE_EQ(p->key_of(job(std::nullopt, age)), left) << name;
      EXPECT_DOUBLE_EQ(key->at(Tokens{age}), left) << name;
    }
  }
}

TEST(BatchPolicies, PoliciesThatDoNotLookAtAgeNeverDisplaceARunningJob) {
  for (const auto name : {"fcfs", "mean", "median", "ratio", "tie", "wspt", "edf", "sjf", "ssjf"}) {
    EXPECT_EQ(policy(name)->age_key(job(law(5, 0.5))), nullptr) << name;
  }
}

TEST(MakePolicy, KnowsEveryNameOnBothLists) {
  for (const auto& names : {policy_names(), batch_policy_names()}) {
    for (const auto name : names) {
      EXPECT_EQ(policy(name)->name(), name);
      EXPECT_FALSE(policy(name)->explain(job(law(5, 0.5), 3)).empty()) << name;
    }
  }
}

TEST(MakeWaitingPolicy, SaysWhereAPolicyOfBatchesBelongs) {
  for (const auto name : policy_names()) EXPECT_TRUE(make_waiting_policy(name)) << name;
  for (const auto name : batch_policy_names()) {
    const auto refused = make_waiting_policy(name);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr("engines and simulation"));
    EXPECT_THAT(refused.error().message, HasSubstr("gittins"));
  }
  EXPECT_THAT(make_waiting_policy("sjfx").error().message, HasSubstr("not known"));
}

TEST(MakePolicy, OptionsOfBatchPoliciesOutOfRangeAreNamed) {
  const auto message = [](auto change) {
    PolicyOptions options;
    change(options);
    const auto result = make_policy("fcfs", options);
    return result ? std::string("accepted") : result.error().message;
  };
  const double nan = std::nan("");
  EXPECT_THAT(message([](auto& o) { o.ssjf_starving_wait = seconds(-1); }),
              HasSubstr("ssjf_starving_wait"));
  EXPECT_THAT(message([&](auto& o) { o.ssjf_starving_times = nan; }),
              HasSubstr("ssjf_starving_times"));
  EXPECT_THAT(message([](auto& o) { o.ssjf_token_time = {}; }), HasSubstr("ssjf_token_time"));
  EXPECT_THAT(message([](auto& o) { o.starvation_idle = -1; }), HasSubstr("starvation_idle"));
  EXPECT_THAT(message([](auto& o) { o.starvation_runs = 0; }), HasSubstr("starvation_runs"));
  EXPECT_THAT(message([](auto& o) { o.mlfq_quantum = Tokens{0}; }), HasSubstr("mlfq_quantum"));
  EXPECT_THAT(message([](auto& o) { o.mlfq_growth = 1; }), HasSubstr("mlfq_growth"));
  EXPECT_THAT(message([&](auto& o) { o.trail_preemptible = nan; }), HasSubstr("trail_preemptible"));
  EXPECT_THAT(message([](auto& o) { o.elis_interval = Tokens{0}; }), HasSubstr("elis_interval"));
  EXPECT_EQ(message([](auto&) {}), "accepted");
}

}  // namespace
}  // namespace tailrace::schedule
