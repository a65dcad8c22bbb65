#include "tailrace/schedule/preemption.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tailrace::schedule {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr BatchRoom kFull{0, 1000};

PreemptionLimits half() {
  return {.review_iterations = 8, .max_per_job = 2, .hysteresis = 0.5, .quantum = 16};
}

RunningJob running(double rank, std::int64_t served = 100) {
  RunningJob job;
  job.key = std::log(rank);
  job.served = served;
  job.blocks = 10;
  return job;
}

WaitingJob waiting(double rank, std::int64_t blocks = 5) {
  return {std::log(rank), 0, blocks};
}

std::vector<std::size_t> choose(const std::vector<RunningJob>& batch,
                                const std::vector<WaitingJob>& line, BatchRoom room = kFull,
                                const PreemptionLimits& limits = half()) {
  return choose_preemptions(batch, line, room, limits);
}

TEST(Preemption, JobOfLessThanTheHysteresisTakesTheWorstPlace) {
  EXPECT_THAT(choose({running(100), running(400), running(300)}, {waiting(150)}), ElementsAre(1));
}

TEST(Preemption, NobodyLeavesForAJobWithinTheHysteresis) {
  EXPECT_THAT(choose({running(100), running(400)}, {waiting(250)}), IsEmpty());
}

TEST(Preemption, NobodyLeavesWhereASlotIsFree) {
  EXPECT_THAT(choose({running(400)}, {waiting(10)}, {1, 1000}), IsEmpty());
}

TEST(Preemption, NobodyLeavesForALineThatIsEmpty) {
  EXPECT_THAT(choose({running(400)}, {}), IsEmpty());
}

TEST(Preemption, EachWaitingJobTakesOnePlaceAsLongAsItGains) {
  EXPECT_THAT(
      choose({running(100), running(400), running(300)}, {waiting(50), waiting(120), waiting(130)}),
      ElementsAre(1, 2));
}

TEST(Preemption, JobThatHasNotServedItsQuantumStays) {
  EXPECT_THAT(choose({running(400, 15), running(300, 16)}, {waiting(10)}), ElementsAre(1));
}

TEST(Preemption, JobThatWasPreemptedOftenEnoughStays) {
  RunningJob twice = running(400);
  twice.preemptions = 2;
  EXPECT_THAT(choose({twice, running(300)}, {waiting(10)}), ElementsAre(1));
}

TEST(Preemption, ProtectedJobStays) {
  RunningJob kept = running(400);
  kept.stays = true;
  EXPECT_THAT(choose({kept}, {waiting(10)}), IsEmpty());
}

TEST(Preemption, MemoryOfSeveralIsTakenOnlyIfTheyLoseLessThanIsGained) {
  const std::vector<RunningJob> batch{running(400), running(400), running(400)};
  // One of 10 blocks is not enough for 15. Two of rank 400 end at the rate of one of rank 200.
  EXPECT_THAT(choose(batch, {waiting(90, 15)}, {0, 0}), ElementsAre(0, 1));
  EXPECT_THAT(choose(batch, {waiting(110, 15)}, {0, 0}), IsEmpty());
}

TEST(Preemption, NobodyLeavesForAJobThatWouldNotFitAllTheSame) {
  EXPECT_THAT(choose({running(400), running(300)}, {waiting(10, 100)}, {0, 0}), IsEmpty());
}

TEST(Preemption, NobodyOvertakesTheFirstThatFindsNoPlace) {
  EXPECT_THAT(choose({running(400)}, {waiting(10, 100), waiting(20)}, {0, 0}), IsEmpty());
}

TEST(Preemption, PriorityGoesBeforeRank) {
  RunningJob urgent = running(400);
  urgent.priority = 1;
  WaitingJob line = waiting(10);
  EXPECT_THAT(choose({urgent, running(30)}, {line}), ElementsAre(1));
  line.priority = 1;
  line.key = std::log(1000);
  EXPECT_THAT(choose({urgent, running(30)}, {line}), ElementsAre(1));
  line.priority = -1;
  line.key = std::log(1);
  EXPECT_THAT(choose({urgent, running(3000)}, {line}), IsEmpty());
}

TEST(Preemption, MemoryVictimIsTheWorstThatIsNotProtected) {
  RunningJob kept = running(900);
  kept.stays = true;
  EXPECT_EQ(choose_victim(std::vector{running(100), running(400), kept}), 1u);
  EXPECT_EQ(choose_victim(std::vector{running(400), running(400)}), 1u);
  EXPECT_EQ(choose_victim(std::vector{kept}), 0u);
}

TEST(Preemption, LimitsComeFromThePolicyUnlessTheyAreGiven) {
  EXPECT_EQ(preemption_limits("gittins", {})->max_per_job, 1);
  EXPECT_EQ(preemption_limits("mlfq", {})->hysteresis, 1);
  EXPECT_EQ(preemption_limits("elis", {})->review_iterations, 50);
  PreemptionOptions options;
  options.max_per_job = 3;
  EXPECT_EQ(preemption_limits("gittins", options)->max_per_job, 3);
  options.enabled = false;
  EXPECT_EQ(preemption_limits("gittins", options)->review_iterations, 0);
}

TEST(Preemption, LimitsOutOfRangeAreNamed) {
  const auto message = [](auto change) {
    PreemptionOptions options;
    change(options);
    const auto limits = preemption_limits("gittins", options);
    return limits ? std::string("accepted") : limits.error().message;
  };
  EXPECT_THAT(message([](auto& o) { o.review_iterations = 0; }), HasSubstr("review_iterations: 0"));
  EXPECT_THAT(message([](auto& o) { o.hysteresis = 0; }), HasSubstr("hysteresis: 0"));
  EXPECT_THAT(message([](auto& o) { o.hysteresis = 1.5; }), HasSubstr("hysteresis: 1.5"));
  EXPECT_THAT(message([](auto& o) { o.quantum = 0; }), HasSubstr("quantum: 0"));
}

}  // namespace
}  // namespace tailrace::schedule
