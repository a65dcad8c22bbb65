#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <simdjson.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "tailrace/schedule/policy.h"

namespace tailrace::schedule {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

length::LengthLaw law(double mu, double sigma) {
  return length::LengthLaw::log_t(mu, sigma).value();
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

/// The textbook rank: every wait counts alike, admission is free, nothing ages.
PolicyOptions plain() {
  PolicyOptions options;
  options.gittins_length_exponent = 0;
  options.gittins_prefill_weight = 0;
  options.gittins_decay = 1;
  return options;
}

std::unique_ptr<Policy> gittins(const PolicyOptions& options = plain()) {
  return make_policy("gittins", options).value();
}

/// The rank that a key stands for, without ageing.
double rank(const Policy& policy, const Job& job) {
  return std::exp(policy.key_of(job));
}

TEST(Gittins, KeyIsTheLogarithmOfTheRankAtTheTokensAttained) {
  // facts/scheduling.md 5.4; the quantum of 16 lies below every length at which these ranks end.
  const auto policy = gittins();
  EXPECT_NEAR(rank(*policy, job(law(5, 0.5))), 182.9031372, 0.002 * 182.9);
  EXPECT_NEAR(rank(*policy, job(law(5, 0.5), 64)), 126.7239856, 0.002 * 126.7);
  EXPECT_NEAR(rank(*policy, job(law(5, 0.1), 64)), 86.69263565, 0.002 * 86.7);
  EXPECT_NEAR(rank(*policy, job(law(5, 0.5), 1024)), 617.4, 0.002 * 617.4);
  EXPECT_NEAR(rank(*policy, job(law(6, 0.5), 256)), 298.345821, 0.002 * 298.3);
}

TEST(Gittins, RanksAreThoseOfTheReferenceVectors) {
  const char* shared = std::getenv("TAILRACE_SHARED");
  const auto root = shared != nullptr ? std::filesystem::path(shared)
                                      : std::filesystem::path(TAILRACE_SOURCE_DIR) / "../shared";
  const auto file = root / "vectors" / "scheduling.json";
  if (!std::filesystem::exists(file)) {
    GTEST_SKIP() << "no shared reference vectors; set TAILRACE_SHARED";
  }
  PolicyOptions options = plain();
  options.gittins_quantum = Tokens{1};  // theirs
  const auto policy = gittins(options);
  simdjson::dom::parser parser;
  const simdjson::dom::element vectors = parser.load(file.string());
  std::size_t rows = 0;
  for (const auto row : simdjson::dom::array(vectors["residual_and_gittins"]["rows"])) {
    Job each = job(law(double(row["mu"]), double(row["sigma"])), std::int64_t(row["age"]));
    each.cap = Tokens{std::int64_t(row["xmax"])};
    const double expected = row["gittins_rank"];
    const double allowed = each.attained == Tokens{0} ? 0.025 : 0.001;
    EXPECT_NEAR(rank(*policy, each) / expected, 1, allowed) << simdjson::minify(row);
    EXPECT_NEAR(std::exp(policy->age_key(each)->at(each.attained)) / expected, 1, 0.001)
        << simdjson::minify(row);
    ++rows;
  }
  EXPECT_GE(rows, 20u);
}

TEST(Gittins, QuantumKeepsAWideLawFromBeingRankedByItsChanceToEndAtOnce) {
  PolicyOptions options = plain();
  options.gittins_quantum = Tokens{1};
  const double by_one_token = rank(*gittins(options), job(law(5, 1)));
  EXPECT_NEAR(by_one_token, 189.5702435, 0.01 * 189.6);
  EXPECT_GT(rank(*gittins(), job(law(5, 1))), 1.05 * by_one_token);
}

TEST(Gittins, RunningJobIsOvertakenOnceItHasOutlivedItsLaw) {
  const auto policy = gittins();
  const auto running = policy->age_key(job(law(5, 0.3)));
  const double waiting = policy->key_of(job(law(5.5, 0.3)));
  EXPECT_LT(running->at(Tokens{0}), waiting);
  EXPECT_LT(running->at(Tokens{100}), running->at(Tokens{0}));
  EXPECT_GT(running->at(Tokens{900}), waiting);
}

TEST(Gittins, AgeKeyAgreesWithTheKeyOfAJobThatHasAttainedAsMuch) {
  for (const double sigma : {0.05, 0.3, 0.75, 1.5}) {
    for (const double weight : {0.0, 0.001}) {
      PolicyOptions options = plain();
      options.gittins_context_weight = weight;
      const auto policy = gittins(options);
      const auto key = policy->age_key(job(law(5, sigma), 0, seconds(7)));
      for (const std::int64_t age : {0, 1, 15, 16, 64, 150, 500, 1024, 2040, 2047}) {
        // Waiting jobs that have not begun are ranked from a grid.
        EXPECT_NEAR(key->at(Tokens{age}), policy->key_of(job(law(5, sigma), age, seconds(7))),
                    age == 0 ? 0.02 : 1e-12)
            << sigma << " at " << age;
      }
    }
  }
}

TEST(Gittins, JobsOfOneLawUnderDifferentCapsAreRankedByTheirOwn) {
  const auto policy = gittins();
  Job shorter = job(law(6, 0.8));
  shorter.cap = Tokens{400};
  const auto key = policy->age_key(job(law(6, 0.8)));
  const auto of_shorter = policy->age_key(shorter);
  const auto again = policy->age_key(job(law(6, 0.8)));
  EXPECT_LT(of_shorter->at(Tokens{300}), key->at(Tokens{300}));
  EXPECT_EQ(again->at(Tokens{300}), key->at(Tokens{300}));
}

TEST(Gittins, JobWithoutLawHasItsWholeCapLeft) {
  const auto policy = gittins();
  EXPECT_DOUBLE_EQ(policy->key_of(job(std::nullopt)), std::log(2048));
  EXPECT_DOUBLE_EQ(policy->key_of(job(std::nullopt, 1000)), std::log(1048));
  EXPECT_DOUBLE_EQ(policy->age_key(job(std::nullopt))->at(Tokens{1000}), std::log(1048));
}

TEST(Gittins, AgesBeyondTheCapCountAsTheLastToken) {
  const auto policy = gittins();
  const auto key = policy->age_key(job(law(5, 0.5)));
  EXPECT_EQ(key->at(Tokens{5000}), key->at(Tokens{2047}));
  EXPECT_DOUBLE_EQ(policy->key_of(job(law(5, 0.5), 5000)), 0);
}

TEST(Gittins, ArrivalCountsOnlyWhereRanksDecay) {
  EXPECT_EQ(gittins()->key_of(job(law(5, 0.5), 0, seconds(0))),
            gittins()->key_of(job(law(5, 0.5), 0, seconds(1000))));
  PolicyOptions options = plain();
  options.gittins_decay = 0.5;
  options.decay_period = seconds(10);
  const auto policy = gittins(options);
  EXPECT_NEAR(policy->key_of(job(law(5, 0.5), 0, seconds(20))) -
                  policy->key_of(job(law(5, 0.5), 0, seconds(0))),
              2 * std::log(2), 1e-12);
}

TEST(Gittins, ContextWeightMultipliesTheRankByWhatATokenOccupies) {
  PolicyOptions options = plain();
  options.gittins_context_weight = 0.01;
  const auto weighted = gittins(options);
  EXPECT_NEAR(rank(*weighted, job(law(5, 0.5))) / rank(*gittins(), job(law(5, 0.5))), 1 + 3, 1e-9);
  EXPECT_NEAR(rank(*weighted, job(law(5, 0.5), 100)) / rank(*gittins(), job(law(5, 0.5), 100)),
              1 + 4, 1e-9);
}

TEST(Gittins, ContextToBeComputedIsServiceBeforeTheFirstToken) {
  PolicyOptions options = plain();
  options.gittins_prefill_weight = 0.5;
  const auto policy = gittins(options);
  EXPECT_NEAR(rank(*policy, job(law(5, 0.5))) - rank(*gittins(), job(law(5, 0.5))), 150, 1e-6);
  Job cached = job(law(5, 0.5));
  cached.cached_tokens = Tokens{200};
  EXPECT_NEAR(rank(*policy, cached) - rank(*gittins(), cached), 50, 1e-6);
  // A preempted job computes what it has generated as well; a running one owes nothing.
  EXPECT_NEAR(rank(*policy, job(law(5, 0.5), 100)) - rank(*gittins(), job(law(5, 0.5), 100)), 200,
              1e-6);
  EXPECT_NEAR(policy->age_key(job(law(5, 0.5)))->at(Tokens{100}),
              gittins()->key_of(job(law(5, 0.5), 100)), 2e-3);
}

TEST(Gittins, LengthExponentPutsShortAnswersBeforeOldOnesWithAsMuchLeft) {
  PolicyOptions options = plain();
  options.gittins_length_exponent = 1;
  const auto policy = gittins(options);
  const Job almost_done = job(law(std::log(1000), 0.02), 900);
  const Job fresh = job(law(std::log(150), 0.02));
  EXPECT_LT(gittins()->key_of(almost_done), gittins()->key_of(fresh));
  EXPECT_GT(policy->key_of(almost_done), policy->key_of(fresh));
}

TEST(Gittins, ExplainsRankAgeAndQuantum) {
  const std::string text = gittins()->explain(job(law(5, 0.5), 64));
  EXPECT_THAT(text, HasSubstr("at 64 tokens"));
  EXPECT_THAT(text, HasSubstr("quantum 16"));
  EXPECT_THAT(text, HasSubstr("log-t mu 5"));
}

TEST(Gittins, GoesByOtherDefaultsWhereNothingIsPreempted) {
  const auto key = [](const auto& policy, std::int64_t arrival_s) {
    return policy.value()->key_of(job(law(5, 0.5), 0, std::chrono::seconds(arrival_s)));
  };
  PolicyOptions as_in_front;
  as_in_front.gittins_length_exponent = kGittinsInFront.length_exponent;
  as_in_front.gittins_prefill_weight = kGittinsInFront.prefill_weight;
  as_in_front.gittins_decay = kGittinsInFront.decay;
  const double in_front = key(make_waiting_policy("gittins"), 60);
  EXPECT_EQ(in_front, key(make_policy("gittins", as_in_front), 60));
  EXPECT_NE(in_front, key(make_policy("gittins"), 60));
  PolicyOptions given = as_in_front;
  given.gittins_length_exponent = 1;
  EXPECT_EQ(key(make_waiting_policy("gittins", given), 60), key(make_policy("gittins", given), 60))
      << "what is given counts in both places";
}

TEST(Gittins, OptionsOutOfRangeAreNamed) {
  const auto message = [](auto change) {
    PolicyOptions options = plain();
    change(options);
    const auto result = make_policy("gittins", options);
    return result ? std::string("accepted") : result.error().message;
  };
  EXPECT_THAT(message([](auto& o) { o.gittins_quantum = Tokens{0}; }),
              HasSubstr("gittins_quantum"));
  EXPECT_THAT(message([](auto& o) { o.gittins_context_weight = -1; }),
              HasSubstr("gittins_context_weight"));
  EXPECT_THAT(message([](auto& o) { o.gittins_decay = 0; }), HasSubstr("gittins_decay"));
  EXPECT_THAT(message([](auto& o) { o.gittins_length_exponent = -1; }),
              HasSubstr("gittins_length_exponent"));
  EXPECT_THAT(message([](auto& o) { o.gittins_prefill_weight = -1; }),
              HasSubstr("gittins_prefill_weight"));
  EXPECT_EQ(message([](auto&) {}), "accepted");
}

}  // namespace
}  // namespace tailrace::schedule
