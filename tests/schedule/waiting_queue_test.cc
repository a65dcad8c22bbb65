#include "tailrace/schedule/waiting_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace tailrace::schedule {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

length::LengthLaw law(double mu) {
  return length::LengthLaw::log_t(mu, 0.5).value();
}
MonoTime at(double s) {
  return MonoTime{from_seconds(s)};
}

Job job(std::uint64_t id, double arrival_s, std::optional<double> mu = std::nullopt) {
  Job job;
  job.id = JobId{id};
  job.arrival = at(arrival_s);
  job.cap = Tokens{2048};
  if (mu) job.law = law(*mu);
  return job;
}

WaitingQueue queue(std::string_view policy, std::optional<Duration> bound = std::nullopt) {
  return WaitingQueue(make_policy(policy).value(), bound);
}

std::vector<std::uint64_t> drain(WaitingQueue& queue, MonoTime now) {
  std::vector<std::uint64_t> ids;
  while (auto job = queue.pop(now)) ids.push_back(job->id.count());
  return ids;
}

std::vector<std::uint64_t> ids(const std::vector<const Job*>& jobs) {
  std::vector<std::uint64_t> ids;
  for (const Job* job : jobs) ids.push_back(job->id.count());
  return ids;
}

TEST(WaitingQueue, ShortJobsOvertakeLongOnes) {
  auto q = queue("tie");
  ASSERT_TRUE(q.push(job(1, 0, 7)));
  ASSERT_TRUE(q.push(job(2, 1, 3)));
  ASSERT_TRUE(q.push(job(3, 2, 5)));
  EXPECT_THAT(drain(q, at(3)), ElementsAre(2, 3, 1));
}

TEST(WaitingQueue, PredictedJobOvertakesUnpredictedOne) {
  auto q = queue("tie");
  ASSERT_TRUE(q.push(job(1, 0)));
  ASSERT_TRUE(q.push(job(2, 1, 5)));
  EXPECT_EQ(q.peek(at(1))->id, JobId{2});
}

TEST(WaitingQueue, APredictionMovesAWaitingJob) {
  auto q = queue("tie");
  ASSERT_TRUE(q.push(job(1, 0, 5)));
  ASSERT_TRUE(q.push(job(2, 1)));
  ASSERT_TRUE(q.set_law(JobId{2}, law(2)));
  EXPECT_THAT(drain(q, at(1)), ElementsAre(2, 1));
}

TEST(WaitingQueue, PriorityOrdersBeforeAnyKey) {
  auto q = queue("tie");
  Job urgent = job(1, 5, 8);
  urgent.priority = 1;
  Job idle = job(2, 0, 1);
  idle.priority = -1;
  ASSERT_TRUE(q.push(idle));
  ASSERT_TRUE(q.push(job(3, 0, 2)));
  ASSERT_TRUE(q.push(urgent));
  EXPECT_THAT(drain(q, at(5)), ElementsAre(1, 3, 2));
}

TEST(WaitingQueue, EqualKeysFallToTheEarlierArrivalThenTheSmallerId) {
  auto q = queue("mean");
  ASSERT_TRUE(q.push(job(4, 2, 5)));
  ASSERT_TRUE(q.push(job(3, 1, 5)));
  ASSERT_TRUE(q.push(job(2, 2, 5)));
  EXPECT_THAT(drain(q, at(2)), ElementsAre(3, 2, 4));
}

TEST(WaitingQueue, ReturnedJobRegainsItsPlace) {
  auto q = queue("fcfs");
  for (std::uint64_t id = 1; id <= 4; ++id) ASSERT_TRUE(q.push(job(id, double(id))));
  Job first = *q.pop(at(5));
  Job second = *q.pop(at(5));
  ASSERT_TRUE(q.push(second));
  ASSERT_TRUE(q.push(first));
  EXPECT_THAT(drain(q, at(6)), ElementsAre(1, 2, 3, 4));
}

TEST(WaitingQueue, OldestOverdueJobGoesFirstWhateverItsKeyOrPriority) {
  auto q = queue("tie", seconds(60));
  Job urgent = job(1, 30, 1);
  urgent.priority = 9;
  ASSERT_TRUE(q.push(urgent));
  ASSERT_TRUE(q.push(job(2, 10, 8)));
  ASSERT_TRUE(q.push(job(3, 5, 8)));
  EXPECT_EQ(q.peek(at(64.9))->id, JobId{1});
  EXPECT_EQ(q.peek(at(65))->id, JobId{3});
  EXPECT_THAT(drain(q, at(70)), ElementsAre(3, 2, 1));
}

TEST(WaitingQueue, ReturnedJobThatIsOverdueGoesBeforeYoungerOverdueOnes) {
  auto q = queue("tie", seconds(60));
  ASSERT_TRUE(q.push(job(1, 0, 5)));
  ASSERT_TRUE(q.push(job(2, 1, 5)));
  ASSERT_TRUE(q.push(job(3, 2, 5)));
  Job returned = *q.pop(at(2));
  ASSERT_EQ(returned.id, JobId{1});
  ASSERT_TRUE(q.push(returned));
  EXPECT_THAT(drain(q, at(100)), ElementsAre(1, 2, 3));
}

TEST(WaitingQueue, BoundOfCenturiesNeverMakesAJobOverdue) {
  auto q = queue("tie", Duration::max());
  ASSERT_TRUE(q.push(job(1, 1e9, 8)));
  ASSERT_TRUE(q.push(job(2, 1e9, 1)));
  EXPECT_EQ(q.peek(at(1e9))->id, JobId{2});
}

TEST(WaitingQueue, BoundOfZeroServesByArrival) {
  auto q = queue("tie", Duration::zero());
  ASSERT_TRUE(q.push(job(1, 0, 8)));
  ASSERT_TRUE(q.push(job(2, 1, 1)));
  EXPECT_THAT(drain(q, at(1)), ElementsAre(1, 2));
}

TEST(WaitingQueue, RemovedJobIsGoneAndReturnedWhole) {
  auto q = queue("tie");
  Job original = job(1, 0, 5);
  original.tenant = "a tenant with a name that does not fit a small string";
  ASSERT_TRUE(q.push(original));
  ASSERT_TRUE(q.push(job(2, 0, 6)));
  const auto removed = q.remove(JobId{1});
  ASSERT_TRUE(removed);
  EXPECT_EQ(removed->tenant, original.tenant);
  EXPECT_EQ(removed->law, original.law);
  EXPECT_EQ(q.find(JobId{1}), nullptr);
  EXPECT_THAT(drain(q, at(0)), ElementsAre(2));
}

TEST(WaitingQueue, MisuseIsAnErrorWithTheId) {
  auto q = queue("tie");
  ASSERT_TRUE(q.push(job(7, 0)));
  EXPECT_EQ(q.push(job(7, 1)).error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(q.remove(JobId{8}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(q.set_law(JobId{8}, law(1)).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(q.place(JobId{8}, at(0)).error().message, HasSubstr("8"));
  EXPECT_EQ(q.size(), 1u);
}

TEST(WaitingQueue, EmptyQueueHasNoNextJob) {
  auto q = queue("tie", seconds(1));
  EXPECT_EQ(q.peek(at(0)), nullptr);
  EXPECT_FALSE(q.pop(at(0)));
  EXPECT_FALSE(q.oldest_arrival());
  EXPECT_THAT(q.snapshot(at(0), 10), IsEmpty());
}

TEST(WaitingQueue, LoadReordersJobsThatWaitedAlready) {
  // A has the smaller mean, B the smaller tail: a small beta prefers A, a large one B.
  const auto a = length::LengthLaw::log_t(5.0, 1.2).value();
  const auto b = length::LengthLaw::log_t(6.215, 0.1).value();
  auto q = queue("tie");
  Job wide = job(1, 0);
  wide.law = a;
  Job narrow = job(2, 0);
  narrow.law = b;
  const double cap = 2048;
  const auto score = [&](const length::LengthLaw& l, double beta) {
    return l.capped_mean(cap) + beta * l.capped_cvar(0.9, cap);
  };
  ASSERT_LT(score(a, 0.1), score(b, 0.1));
  ASSERT_GT(score(a, 0.5), score(b, 0.5));

  ASSERT_TRUE(q.push(wide));
  ASSERT_TRUE(q.push(narrow));
  q.set_load(1, 32);
  EXPECT_EQ(q.peek(at(0))->id, JobId{1});
  q.set_load(200, 32);
  EXPECT_EQ(q.peek(at(0))->id, JobId{2});
  q.set_load(1, 32);
  EXPECT_EQ(q.peek(at(0))->id, JobId{1});
}

TEST(WaitingQueue, NewPolicyReordersTheWaitingAndKnowsTheLoad) {
  auto q = queue("fcfs");
  ASSERT_TRUE(q.push(job(1, 0, 7)));
  ASSERT_TRUE(q.push(job(2, 1, 3)));
  q.set_load(500, 32);
  q.set_policy(make_policy("tie").value());
  EXPECT_THAT(q.policy().explain(*q.find(JobId{1})), HasSubstr("beta 0.50"));
  EXPECT_THAT(ids(q.snapshot(at(1), 10)), ElementsAre(2, 1));
  q.set_policy(make_policy("fcfs").value());
  EXPECT_THAT(drain(q, at(1)), ElementsAre(1, 2));
}

TEST(WaitingQueue, PlaceCountsTheJobsAheadAndSaysWhy) {
  auto q = queue("tie", seconds(60));
  ASSERT_TRUE(q.push(job(1, 0, 7)));
  ASSERT_TRUE(q.push(job(2, 1, 3)));
  ASSERT_TRUE(q.push(job(3, 50, 2)));
  EXPECT_EQ(q.place(JobId{1}, at(50))->position, 2u);
  EXPECT_EQ(q.place(JobId{3}, at(50))->position, 0u);
  EXPECT_THAT(q.place(JobId{1}, at(50))->rule, HasSubstr("tie: score"));
  const auto overdue = q.place(JobId{1}, at(60));
  EXPECT_TRUE(overdue->overdue);
  EXPECT_EQ(overdue->position, 0u);
  EXPECT_THAT(overdue->rule, HasSubstr("waiting bound"));
  EXPECT_EQ(q.place(JobId{3}, at(60))->position, 1u);
}

TEST(WaitingQueue, SnapshotIsTheOrderOfPopsCutAtTheLimit) {
  auto q = queue("tie", seconds(60));
  for (std::uint64_t id = 1; id <= 50; ++id) {
    ASSERT_TRUE(q.push(job(id, double(id), double(id * 37 % 11))));
  }
  const auto all = ids(q.snapshot(at(75), 1000));
  const auto some = ids(q.snapshot(at(75), 7));
  EXPECT_EQ(some, std::vector<std::uint64_t>(all.begin(), all.begin() + 7));
  EXPECT_THAT(q.snapshot(at(75), 0), IsEmpty());
  EXPECT_EQ(drain(q, at(75)), all);
}

TEST(WaitingQueue, WalkStopsWhereToldAndSaysWhichAreOverdue) {
  auto q = queue("tie", seconds(60));
  ASSERT_TRUE(q.push(job(1, 0, 7)));
  ASSERT_TRUE(q.push(job(2, 50, 3)));
  ASSERT_TRUE(q.push(job(3, 50, 5)));
  std::vector<std::pair<std::uint64_t, bool>> seen;
  const Job* stopped = q.walk(at(60), 10, [&](const Job& job, bool overdue) {
    seen.emplace_back(job.id.count(), overdue);
    return job.id == JobId{2};
  });
  ASSERT_NE(stopped, nullptr);
  EXPECT_EQ(stopped->id, JobId{2});
  EXPECT_THAT(seen, ElementsAre(std::pair(1, true), std::pair(2, false)));
}

TEST(WaitingQueue, IdMayWaitAgainAfterItLeft) {
  auto q = queue("tie");
  ASSERT_TRUE(q.push(job(1, 0, 7)));
  ASSERT_TRUE(q.remove(JobId{1}));
  ASSERT_TRUE(q.push(job(1, 5, 2)));
  EXPECT_EQ(q.find(JobId{1})->arrival, at(5));
  EXPECT_EQ(*q.oldest_arrival(), at(5));
}

}  // namespace
}  // namespace tailrace::schedule
