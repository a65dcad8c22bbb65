#include "tailrace/schedule/starvation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tailrace/schedule/waiting_queue.h"

namespace tailrace::schedule {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr JobId kA{1}, kB{2};

TEST(IdleCounter, PromotesAJobThatWaitedForTheRulesIterations) {
  IdleCounter counter({.idle_iterations = 200, .run_iterations = 10});
  counter.waits(kA, 5);
  EXPECT_THAT(counter.advance(204).promoted, IsEmpty());
  EXPECT_FALSE(counter.promoted(kA));
  EXPECT_THAT(counter.advance(205).promoted, ElementsAre(kA));
  EXPECT_TRUE(counter.promoted(kA));
  EXPECT_THAT(counter.advance(1000).promoted, IsEmpty());
}

TEST(IdleCounter, IdleIterationsAddUpOverAllStaysInTheLine) {
  IdleCounter counter({.idle_iterations = 100, .run_iterations = 10});
  counter.waits(kA, 0);
  counter.runs(kA, 60);
  counter.waits(kA, 500);
  EXPECT_THAT(counter.advance(539).promoted, IsEmpty());
  EXPECT_THAT(counter.advance(540).promoted, ElementsAre(kA));
}

TEST(IdleCounter, RunningJobIsNeverPromoted) {
  IdleCounter counter({.idle_iterations = 3, .run_iterations = 1});
  counter.runs(kA, 0);
  EXPECT_THAT(counter.advance(1000).promoted, IsEmpty());
}

TEST(IdleCounter, PromotedJobStaysSoUntilItHasRunForThePeriod) {
  IdleCounter counter({.idle_iterations = 20, .run_iterations = 10});
  counter.waits(kA, 0);
  EXPECT_THAT(counter.advance(20).promoted, ElementsAre(kA));
  counter.runs(kA, 50);
  EXPECT_THAT(counter.advance(56).demoted, IsEmpty());
  counter.waits(kA, 56);  // memory ran short: 4 iterations are left to it
  EXPECT_THAT(counter.advance(100).demoted, IsEmpty());
  counter.runs(kA, 100);
  EXPECT_THAT(counter.advance(103).demoted, IsEmpty());
  EXPECT_THAT(counter.advance(104).demoted, ElementsAre(kA));
  EXPECT_FALSE(counter.promoted(kA));
}

TEST(IdleCounter, CountBeginsAnewAfterAPromotion) {
  IdleCounter counter({.idle_iterations = 20, .run_iterations = 10});
  counter.waits(kA, 0);
  (void)counter.advance(20);
  counter.runs(kA, 30);
  (void)counter.advance(40);
  counter.waits(kA, 40);
  EXPECT_THAT(counter.advance(59).promoted, IsEmpty());
  EXPECT_THAT(counter.advance(60).promoted, ElementsAre(kA));
}

TEST(IdleCounter, NamesTheEarlierDueFirstThenTheSmallerId) {
  IdleCounter counter({.idle_iterations = 10, .run_iterations = 1});
  counter.waits(kB, 0);
  counter.waits(kA, 0);
  counter.waits(JobId{3}, -1);
  EXPECT_THAT(counter.advance(50).promoted, ElementsAre(JobId{3}, kA, kB));
}

TEST(IdleCounter, ForgetsAJobThatEnded) {
  IdleCounter counter({.idle_iterations = 10, .run_iterations = 1});
  counter.waits(kA, 0);
  counter.ended(kA);
  counter.ended(kB);
  EXPECT_THAT(counter.advance(100).promoted, IsEmpty());
  counter.waits(kA, 100);
  EXPECT_THAT(counter.advance(109).promoted, IsEmpty());
}

TEST(StarvationRule, IsOffForLtrAndThreeSecondsForMlfqUnlessSaidOtherwise) {
  EXPECT_FALSE(make_policy("ltr").value()->starvation_rule());
  EXPECT_FALSE(make_policy("tie").value()->starvation_rule());
  const auto mlfq = make_policy("mlfq").value()->starvation_rule();
  ASSERT_TRUE(mlfq);
  EXPECT_EQ(mlfq->idle_iterations, 120);
  EXPECT_EQ(mlfq->run_iterations, 100);

  PolicyOptions options;
  options.starvation_idle = 200;
  const auto ltr = make_policy("ltr", options).value()->starvation_rule();
  ASSERT_TRUE(ltr);
  EXPECT_EQ(ltr->idle_iterations, 200);
  EXPECT_EQ(ltr->run_iterations, 10);
  options.starvation_idle = 0;
  EXPECT_FALSE(make_policy("mlfq", options).value()->starvation_rule());
}

Job job(std::uint64_t id, double tokens, Duration arrival) {
  Job job;
  job.id = JobId{id};
  job.arrival = MonoTime{arrival};
  job.cap = Tokens{100'000};
  job.law = length::LengthLaw::log_normal(std::log(tokens), 1e-3).value();
  return job;
}

JobId next(const WaitingQueue& queue, Duration now) {
  return queue.peek(MonoTime{now})->id;
}

TEST(Ssjf, ShortestPredictionGoesFirstUntilTheLongestWaitingStarves) {
  WaitingQueue queue(make_policy("ssjf").value(), std::nullopt);
  ASSERT_TRUE(queue.push(job(1, 5000, seconds(0))));
  ASSERT_TRUE(queue.push(job(2, 1000, seconds(10))));
  ASSERT_TRUE(queue.push(job(3, 20, seconds(99))));
  EXPECT_EQ(next(queue, seconds(100)), JobId{3});
  // Over 100 s: by waiting time, whatever is shorter.
  EXPECT_EQ(next(queue, seconds(101)), JobId{1});
  // The next in age has not starved, so lengths decide again.
  ASSERT_TRUE(queue.remove(JobId{1}));
  EXPECT_EQ(next(queue, seconds(101)), JobId{3});
}

TEST(Ssjf, JobStarvesAfterTenTimesItsOwnExecution) {
  PolicyOptions options;
  options.ssjf_token_time = milliseconds(10);
  WaitingQueue queue(make_policy("ssjf", options).value(), std::nullopt);
  ASSERT_TRUE(queue.push(job(1, 200, seconds(0))));  // runs for 2 s
  ASSERT_TRUE(queue.push(job(2, 10, seconds(19))));
  EXPECT_EQ(next(queue, milliseconds(19'900)), JobId{2});
  EXPECT_EQ(next(queue, milliseconds(20'100)), JobId{1});
  const Place place = queue.place(JobId{1}, MonoTime{milliseconds(20'100)}).value();
  EXPECT_EQ(place.position, 0u);
  EXPECT_TRUE(place.overdue);
  EXPECT_THAT(place.rule, HasSubstr("starves: waited 20.100 s"));
}

TEST(Ssjf, StarvingJobBehindOneThatDoesNotStarveWaitsOn) {
  // Only the longest-waiting job is asked: a young short one has waited ten times its length.
  WaitingQueue queue(make_policy("ssjf").value(), std::nullopt);
  ASSERT_TRUE(queue.push(job(1, 2000, seconds(0))));
  ASSERT_TRUE(queue.push(job(2, 11, seconds(1))));
  ASSERT_TRUE(queue.push(job(3, 10, seconds(50))));
  EXPECT_EQ(next(queue, seconds(60)), JobId{3});
  std::vector<JobId> order;
  for (const Job* each : queue.snapshot(MonoTime{seconds(60)}, 3)) order.push_back(each->id);
  EXPECT_THAT(order, ElementsAre(JobId{3}, JobId{2}, JobId{1}));
}

TEST(WaitingQueue, PromotedJobGoesBeforeAllOthers) {
  WaitingQueue queue(make_policy("ltr").value(), std::nullopt);
  ASSERT_TRUE(queue.push(job(1, 5000, seconds(0))));
  ASSERT_TRUE(queue.push(job(2, 20, seconds(1))));
  EXPECT_EQ(next(queue, seconds(2)), JobId{2});
  ASSERT_TRUE(queue.set_priority(JobId{1}, 1));
  EXPECT_EQ(next(queue, seconds(2)), JobId{1});
  ASSERT_TRUE(queue.set_priority(JobId{1}, 0));
  EXPECT_EQ(next(queue, seconds(2)), JobId{2});
  EXPECT_EQ(queue.set_priority(JobId{7}, 1).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace tailrace::schedule
