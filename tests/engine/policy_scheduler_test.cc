#include "tailrace/engine/policy_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "engine/support/engines.h"
#include "tailrace/engine/batch_engine.h"

namespace tailrace::engine {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kMemory = 1'000'000;

length::LengthLaw about(double length) {
  return length::LengthLaw::log_t(std::log(length), 0.3).value();
}

/// One engine whose iterations take 1 ms, and what becomes of its requests.
class Line final : public LifeSink {
 public:
  explicit Line(const PolicySchedulerOptions& options, std::int64_t seqs = 1,
                std::int64_t kv_tokens = kMemory) {
    auto scheduler = PolicyScheduler::make(options);
    scheduler_ = scheduler->get();
    engine_ = std::make_unique<BatchEngine>(
        token_engine(linear_cost(1, 0, 0, 0), seqs, kMemory, kv_tokens), std::move(*scheduler));
  }

  void add(std::uint64_t id, std::int64_t output, std::optional<length::LengthLaw> law,
           std::int64_t prompt = 10) {
    schedule::Job job;
    job.id = JobId(id);
    job.prompt_tokens = Tokens(prompt);
    job.cap = Tokens(2048);
    job.law = std::move(law);
    scheduler_->describe(job);
    ASSERT_TRUE(engine_->add({SequenceId(id), Tokens(prompt), Tokens(output)}, now_).has_value());
  }
  void run(Duration time) {
    const MonoTime until = now_ + time;
    engine_->advance(now_, until, false, *this);
    now_ = until;
  }
  PolicyScheduler& scheduler() { return *scheduler_; }
  BatchEngine& engine() { return *engine_; }
  MonoTime now() const { return now_; }

  void on_admitted(SequenceId id, MonoTime, Tokens) override { admitted.push_back(id.count()); }
  void on_first_token(SequenceId, MonoTime) override {}
  void on_finished(SequenceId id, MonoTime) override { finished.push_back(id.count()); }
  void on_preempted(SequenceId id, MonoTime, Tokens generated) override {
    preempted.push_back(id.count());
    generated_at_preemption.push_back(generated.count());
  }

  std::vector<std::uint64_t> admitted, finished, preempted;
  std::vector<std::int64_t> generated_at_preemption;

 private:
  std::unique_ptr<BatchEngine> engine_;
  PolicyScheduler* scheduler_ = nullptr;
  MonoTime now_;
};

PolicySchedulerOptions gittins() {
  PolicySchedulerOptions options;
  options.policy = "gittins";
  return options;
}

TEST(PolicyScheduler, AdmitsInTheOrderOfThePolicy) {
  PolicySchedulerOptions options;
  options.policy = "mean";
  Line line(options);
  line.add(1, 5, about(900));
  line.add(2, 5, about(30));
  line.add(3, 5, about(300));
  line.run(milliseconds(100));
  EXPECT_THAT(line.admitted, ElementsAre(2, 3, 1));
}

TEST(PolicyScheduler, PredictionThatComesLateMovesAWaitingRequest) {
  PolicySchedulerOptions options;
  options.policy = "mean";
  Line line(options);
  line.add(1, 50, about(50));
  line.run(milliseconds(10));
  line.add(2, 5, about(300));
  line.add(3, 5, std::nullopt);
  line.scheduler().set_law(SequenceId(3), about(20), line.now());
  line.scheduler().set_law(SequenceId(99), about(20), line.now());
  line.run(milliseconds(100));
  EXPECT_THAT(line.finished, ElementsAre(1, 3, 2));
}

TEST(PolicyScheduler, RequestThatOutlivesItsLawGivesItsPlaceToAShortOne) {
  Line line(gittins());
  line.add(1, 1500, about(100));
  line.run(milliseconds(900));
  line.add(2, 20, about(20));
  line.run(milliseconds(5000));
  EXPECT_THAT(line.preempted, ElementsAre(1));
  EXPECT_THAT(line.finished, ElementsAre(2, 1));
}

TEST(PolicyScheduler, RequestAboutToEndIsLeftAlone) {
  Line line(gittins());
  line.add(1, 100, about(100));
  line.run(milliseconds(90));
  line.add(2, 60, about(60));
  line.run(milliseconds(500));
  EXPECT_TRUE(line.preempted.empty());
}

TEST(PolicyScheduler, PolicyWithoutAgeNeverPreemptsByReview) {
  for (const auto* policy : {"fcfs", "tie", "mean", "ssjf"}) {
    PolicySchedulerOptions options;
    options.policy = policy;
    Line line(options);
    EXPECT_EQ(line.scheduler().review_interval(), 0) << policy;
  }
}

TEST(PolicyScheduler, PreemptionCanBeSwitchedOff) {
  PolicySchedulerOptions options = gittins();
  options.preemption.enabled = false;
  Line line(options);
  line.add(1, 1500, about(100));
  line.run(milliseconds(900));
  line.add(2, 20, about(20));
  line.run(milliseconds(5000));
  EXPECT_TRUE(line.preempted.empty());
  EXPECT_THAT(line.finished, ElementsAre(1, 2));
}

TEST(PolicyScheduler, NoRequestIsReviewedAwayMoreOftenThanItsLimit) {
  Line line(gittins());
  line.add(1, 2000, about(100));
  for (std::uint64_t id = 2; id < 12; ++id) {
    line.run(milliseconds(300));
    line.add(id, 20, about(20));
  }
  line.run(milliseconds(5000));
  EXPECT_THAT(line.preempted, ElementsAre(1));
}

TEST(PolicyScheduler, DisplacedRequestHasServedItsQuantumSinceItsAdmission) {
  PolicySchedulerOptions options;
  options.policy = "las";
  options.preemption.hysteresis = 1;
  options.preemption.quantum = 30;
  Line line(options);
  for (std::uint64_t id = 1; id <= 4; ++id) line.add(id, 200, std::nullopt);
  line.run(milliseconds(3000));
  ASSERT_EQ(line.finished.size(), 4u);
  std::map<std::uint64_t, std::int64_t> before;
  for (std::size_t i = 0; i < line.preempted.size(); ++i) {
    std::int64_t& last = before[line.preempted[i]];
    EXPECT_GE(line.generated_at_preemption[i] - last, 30);
    last = line.generated_at_preemption[i];
  }
  EXPECT_GE(line.preempted.size(), 4u);
}

TEST(PolicyScheduler, MemoryTakesTheRequestOfTheWorstRank) {
  // Both fit at first; the first is long past its law when memory ends.
  Line line(gittins(), 2, 700);
  line.add(1, 650, about(60));
  line.add(2, 400, about(390));
  line.run(milliseconds(3000));
  EXPECT_THAT(line.preempted, ElementsAre(1));
  EXPECT_THAT(line.finished, ElementsAre(2, 1));
}

TEST(PolicyScheduler, MlfqPromotesARequestLeftIdleForTooLong) {
  PolicySchedulerOptions options;
  options.policy = "mlfq";
  options.policy_options.starvation_idle = 40;
  options.policy_options.starvation_runs = 1000;
  Line line(options);
  line.add(1, 100, std::nullopt);
  line.run(milliseconds(60));  // it is in a low level by now
  for (std::uint64_t id = 2; id < 40; ++id) {
    line.add(id, 12, std::nullopt);
    line.run(milliseconds(10));
  }
  line.run(milliseconds(3000));
  ASSERT_EQ(line.finished.size(), 39u);
  const auto at = std::find(line.finished.begin(), line.finished.end(), 1u);
  EXPECT_LT(at - line.finished.begin(), 10);
}

TEST(PolicyScheduler, TrailKeepsARequestPastItsShareOfThePrediction) {
  PolicySchedulerOptions options;
  options.policy = "trail";
  Line line(options);
  line.add(1, 400, about(100));
  line.run(milliseconds(200));
  line.add(2, 5, about(5));
  line.run(milliseconds(1000));
  EXPECT_TRUE(line.preempted.empty());
  EXPECT_THAT(line.finished, ElementsAre(1, 2));
}

TEST(PolicyScheduler, AbortedRequestIsForgottenWhereverItIs) {
  Line line(gittins());
  line.add(1, 500, about(100));
  line.run(milliseconds(50));
  line.add(2, 20, about(2000));
  EXPECT_TRUE(line.engine().abort(SequenceId(2)));
  EXPECT_TRUE(line.engine().abort(SequenceId(1)));
  EXPECT_EQ(line.scheduler().size(), 0u);
  line.add(1, 20, about(20));
  line.run(milliseconds(100));
  EXPECT_THAT(line.finished, ElementsAre(1));
}

TEST(PolicyScheduler, OptionsOutOfRangeAreNamed) {
  PolicySchedulerOptions options = gittins();
  options.preemption.hysteresis = 2;
  EXPECT_THAT(PolicyScheduler::make(options).error().message, HasSubstr("preemption.hysteresis"));
  options = gittins();
  options.policy = "luck";
  EXPECT_THAT(PolicyScheduler::make(options).error().message, HasSubstr("luck"));
}

}  // namespace
}  // namespace tailrace::engine
