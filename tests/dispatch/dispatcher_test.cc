#include "tailrace/dispatch/dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace tailrace::dispatch {
namespace {

using schedule::Job;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

MonoTime at(double s) {
  return MonoTime{from_seconds(s)};
}

Job job(std::uint64_t id, double arrival_s = 0, std::string model = "m") {
  Job job;
  job.id = JobId{id};
  job.arrival = at(arrival_s);
  job.model = std::move(model);
  job.cap = Tokens{2048};
  return job;
}

length::LengthLaw law(double mu) {
  return length::LengthLaw::log_t(mu, 0.5).value();
}

Dispatcher dispatcher(DispatchConfig config = {}) {
  return std::move(Dispatcher::make(config).value());
}

Dispatcher with_backends(std::vector<BackendSpec> specs, DispatchConfig config = {}) {
  Dispatcher d = dispatcher(config);
  for (const BackendSpec& spec : specs) EXPECT_TRUE(d.put_backend(spec, at(0)));
  return d;
}

void submit(Dispatcher& d, const Job& job, MonoTime now = at(0)) {
  const Submission submission = d.submit(job, 100, now);
  EXPECT_FALSE(submission.refusal) << submission.reason;
}

/// "id→backend" for everything that can go now.
std::vector<std::string> assign_all(Dispatcher& d, MonoTime now) {
  std::vector<std::string> assignments;
  while (const auto next = d.next(now)) {
    assignments.push_back(std::to_string(next->job.id.count()) + "→" + next->backend);
  }
  return assignments;
}

BackendView backend(const Dispatcher& d, std::string_view name) {
  for (const BackendView& view : d.backends()) {
    if (view.name == name) return view;
  }
  ADD_FAILURE() << "no backend " << name;
  return {};
}

PoolView pool(const Dispatcher& d, std::string_view model, MonoTime now = at(0)) {
  for (const PoolView& view : d.pools(now)) {
    if (view.model == model) return view;
  }
  ADD_FAILURE() << "no pool " << model;
  return {};
}

// --- the life of a job

TEST(Dispatcher, SendsNoMoreJobsThanABackendHasSlots) {
  auto d = with_backends({{"a", {"m"}, 2}});
  for (std::uint64_t id = 1; id <= 3; ++id) submit(d, job(id, double(id)));
  EXPECT_THAT(assign_all(d, at(3)), ElementsAre("1→a", "2→a"));
  ASSERT_TRUE(d.complete(JobId{1}, Outcome::kCompleted, at(4)));
  EXPECT_THAT(assign_all(d, at(4)), ElementsAre("3→a"));
}

TEST(Dispatcher, AssignmentSaysHowLongTheJobWaited) {
  auto d = with_backends({{"a", {"m"}, 1}});
  submit(d, job(1, 2), at(2));
  const auto assignment = d.next(at(5));
  ASSERT_TRUE(assignment);
  EXPECT_EQ(assignment->waited, seconds(3));
  EXPECT_FALSE(assignment->overdue);
  EXPECT_EQ(assignment->job.model, "m");
}

TEST(Dispatcher, APredictionMovesAShortJobForward) {
  auto d = with_backends({{"a", {"m"}, 1}});
  submit(d, job(1));
  submit(d, job(2));
  d.set_law(JobId{1}, law(7), at(0));
  d.set_law(JobId{2}, law(3), at(0));
  EXPECT_THAT(assign_all(d, at(0)), ElementsAre("2→a"));
}

TEST(Dispatcher, APredictionForARunningJobCountsWhenItReturns) {
  auto d = with_backends({{"a", {"m"}, 1}});
  submit(d, job(1));
  ASSERT_TRUE(d.next(at(0)));
  submit(d, job(2));
  d.set_law(JobId{2}, law(5), at(0));
  d.set_law(JobId{1}, law(3), at(0));
  ASSERT_TRUE(d.requeue(JobId{1}, "", at(1)));
  EXPECT_THAT(assign_all(d, at(1)), ElementsAre("1→a"));
}

TEST(Dispatcher, APredictionForAnUnknownJobIsIgnored) {
  auto d = with_backends({{"a", {"m"}, 1}});
  d.set_law(JobId{99}, law(3), at(0));
  EXPECT_TRUE(d.idle());
}

TEST(Dispatcher, ReturnedJobKeepsItsPlace) {
  DispatchConfig config;
  config.policy = "fcfs";
  auto d = with_backends({{"a", {"m"}, 1}}, config);
  submit(d, job(1, 1), at(1));
  submit(d, job(2, 2), at(2));
  ASSERT_TRUE(d.next(at(2)));
  ASSERT_TRUE(d.requeue(JobId{1}, "a", at(3)));
  EXPECT_EQ(d.explain(JobId{1}, at(3))->place->position, 0u);
  EXPECT_EQ(backend(d, "a").running, 0);
  EXPECT_THAT(assign_all(d, at(3)), ElementsAre("1→a"));  // no other backend can take it
}

TEST(Dispatcher, OverdueJobsGoFirstAndAssignmentsSayIt) {
  DispatchConfig config;
  config.waiting_bound = seconds(60);
  auto d = with_backends({{"a", {"m"}, 1}}, config);
  submit(d, job(1, 0), at(0));
  submit(d, job(2, 50), at(50));
  d.set_law(JobId{1}, law(8), at(50));
  d.set_law(JobId{2}, law(2), at(50));
  const auto first = d.next(at(60));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->job.id, JobId{1});
  EXPECT_TRUE(first->overdue);
}

TEST(Dispatcher, CancelReleasesAPlaceInEveryState) {
  auto d = with_backends({{"a", {"m"}, 1}});
  submit(d, job(1));
  submit(d, job(2, 1));
  ASSERT_TRUE(d.next(at(1)));
  EXPECT_TRUE(d.cancel(JobId{2}, at(1)));  // waiting
  EXPECT_EQ(pool(d, "m").queued_bytes, 0u);
  EXPECT_TRUE(d.cancel(JobId{1}, at(1)));  // running
  EXPECT_EQ(backend(d, "a").running, 0);
  EXPECT_TRUE(d.idle());
  EXPECT_FALSE(d.cancel(JobId{1}, at(1)));  // again
  EXPECT_FALSE(d.cancel(JobId{77}, at(1)));
}

TEST(Dispatcher, MisuseIsAnErrorAndChangesNothing) {
  auto d = with_backends({{"a", {"m"}, 1}});
  submit(d, job(1));
  EXPECT_EQ(d.complete(JobId{1}, Outcome::kCompleted, at(0)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(d.requeue(JobId{1}, "a", at(0)).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(d.next(at(0)));
  ASSERT_TRUE(d.complete(JobId{1}, Outcome::kFailed, at(1)));
  EXPECT_EQ(d.complete(JobId{1}, Outcome::kFailed, at(1)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(d.requeue(JobId{1}, "a", at(1)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(backend(d, "a").running, 0);
}

TEST(Dispatcher, AnIdMayBeUsedAgainOnceItsJobHasEnded) {
  auto d = with_backends({{"a", {"m"}, 1}});
  submit(d, job(1));
  EXPECT_EQ(d.submit(job(1), 1, at(0)).refusal, Refusal::kInvalidJob);
  ASSERT_TRUE(d.next(at(0)));
  EXPECT_EQ(d.submit(job(1), 1, at(0)).refusal, Refusal::kInvalidJob);
  ASSERT_TRUE(d.complete(JobId{1}, Outcome::kCompleted, at(1)));
  submit(d, job(1, 2), at(2));
  EXPECT_EQ(d.explain(JobId{1}, at(2))->state, "waiting");
}

// --- admission

TEST(Admission, UnknownModelIsRefusedAndLeavesNoPoolBehind) {
  auto d = with_backends({{"a", {"m"}, 1}});
  const Submission s = d.submit(job(1, 0, "other"), 1, at(0));
  EXPECT_EQ(s.refusal, Refusal::kUnknownModel);
  EXPECT_THAT(s.reason, HasSubstr("other"));
  EXPECT_THAT(d.pools(at(0)), SizeIs(1));
  EXPECT_FALSE(d.serves("other"));
  EXPECT_TRUE(d.serves("m"));
}

TEST(Admission, JobsOfAnAwaitedModelWaitForItsFirstBackend) {
  DispatchConfig config;
  config.awaited_models = {"m"};
  config.queued_jobs_max = 2;
  auto d = dispatcher(config);
  ASSERT_THAT(d.pools(at(0)), SizeIs(1));
  EXPECT_TRUE(d.awaits("m"));
  EXPECT_FALSE(d.awaits("other"));
  EXPECT_FALSE(d.serves("m"));
  submit(d, job(1));
  submit(d, job(2));
  EXPECT_EQ(d.submit(job(3), 1, at(0)).refusal, Refusal::kQueueFull);
  EXPECT_EQ(d.submit(job(4, 0, "other"), 1, at(0)).refusal, Refusal::kUnknownModel);
  EXPECT_FALSE(d.next(at(1)));
  ASSERT_TRUE(d.put_backend({"a", {"m"}, 1}, at(2)));
  EXPECT_THAT(assign_all(d, at(2)), ElementsAre("1→a"));
  ASSERT_TRUE(d.complete(JobId{1}, Outcome::kCompleted, at(3)));
  ASSERT_TRUE(d.remove_backend("a", at(3)));
  EXPECT_TRUE(d.backends().empty());
  ASSERT_THAT(d.pools(at(3)), SizeIs(1));
  EXPECT_EQ(d.pools(at(3))[0].waiting, 1U);
  EXPECT_TRUE(d.cancel(JobId{2}, at(4)));
  EXPECT_THAT(d.pools(at(4)), SizeIs(1)) << "an awaited model's pool stays";
}

TEST(Admission, AnAwaitedModelsWideJobsAreJudgedByTheLargestBackendThatMayCome) {
  DispatchConfig config;
  config.awaited_models = {"m", "open"};
  config.awaited_slots = {{"m", 8}};
  auto d = dispatcher(config);
  EXPECT_EQ(d.largest_backend("m"), 8);
  EXPECT_FALSE(d.serves("m")) << "nothing is there yet";
  Job wide = job(1);
  wide.slots = 9;
  const Submission s = d.submit(wide, 1, at(0));
  EXPECT_EQ(s.refusal, Refusal::kTooManySlots) << "nothing is brought for what must be refused";
  EXPECT_THAT(s.reason, HasSubstr("the largest has 8"));
  wide.model = "open";
  EXPECT_FALSE(d.submit(wide, 1, at(0)).refusal) << "nobody said what is to come";
  wide = job(2);
  wide.slots = 8;
  ASSERT_TRUE(d.put_backend({"small", {"m"}, 2}, at(1)));
  EXPECT_FALSE(d.submit(wide, 1, at(1)).refusal) << "a larger one may come";
  submit(d, job(3));
  EXPECT_THAT(assign_all(d, at(1)), ElementsAre("3→small")) << "and holds up nobody until then";
  ASSERT_TRUE(d.put_backend({"large", {"m"}, 8}, at(2)));
  EXPECT_THAT(assign_all(d, at(2)), ElementsAre("2→large"));
  wide = job(4);
  wide.slots = 16;
  ASSERT_TRUE(d.put_backend({"huge", {"m"}, 16}, at(3)));
  EXPECT_FALSE(d.submit(wide, 1, at(3)).refusal) << "what is there counts, whatever was said";
}

TEST(Admission, FullQueueIsRefusedWithATimeFromTheDrainRate) {
  DispatchConfig config;
  config.queued_jobs_max = 40;
  auto d = with_backends({{"a", {"m"}, 1}}, config);
  submit(d, job(1000));
  ASSERT_TRUE(d.next(at(0)));
  for (std::uint64_t id = 1; id <= 40; ++id) submit(d, job(id));
  Submission s = d.submit(job(41), 1, at(0));
  EXPECT_EQ(s.refusal, Refusal::kQueueFull);
  EXPECT_FALSE(s.retry_after) << "nothing has drained yet";

  ASSERT_TRUE(d.complete(JobId{1000}, Outcome::kCompleted, at(2)));  // one job in 2 slot-seconds
  const auto second = d.next(at(2));
  ASSERT_TRUE(second);
  submit(d, job(1001), at(2));
  s = d.submit(job(41), 1, at(2));
  EXPECT_EQ(s.refusal, Refusal::kQueueFull);
  ASSERT_TRUE(s.retry_after);
  EXPECT_NEAR(to_seconds(*s.retry_after), 4 * 2, 0.3);  // a tenth of 40 jobs at 0.5/s
}

TEST(Admission, QueuedBytesAreLimitedAndReleased) {
  DispatchConfig config;
  config.queued_bytes_max = 1000;
  auto d = with_backends({{"a", {"m"}, 1}}, config);
  EXPECT_FALSE(d.submit(job(1), 600, at(0)).refusal);
  EXPECT_EQ(d.submit(job(2), 500, at(0)).refusal, Refusal::kBytesFull);
  EXPECT_EQ(d.submit(job(2), SIZE_MAX, at(0)).refusal, Refusal::kBytesFull);
  EXPECT_FALSE(d.submit(job(2), 400, at(0)).refusal);
  ASSERT_TRUE(d.next(at(0)));
  EXPECT_EQ(pool(d, "m").queued_bytes, 400u);
  EXPECT_FALSE(d.submit(job(3), 600, at(0)).refusal);
}

TEST(Admission, MoreSlotsThanAnyBackendHasAreRefused) {
  auto d = with_backends({{"a", {"m"}, 2}, {"b", {"m"}, 4}, {"c", {"other"}, 9}});
  Job wide = job(1);
  wide.slots = 5;
  const Submission s = d.submit(wide, 1, at(0));
  EXPECT_EQ(s.refusal, Refusal::kTooManySlots);
  EXPECT_THAT(s.reason, HasSubstr("the largest has 4"));
  wide.slots = 4;
  EXPECT_FALSE(d.submit(wide, 1, at(0)).refusal);
}

TEST(Admission, FieldsOutOfRangeAreRefused) {
  auto d = with_backends({{"a", {"m"}, 2}});
  Job bad = job(1);
  bad.slots = 0;
  EXPECT_EQ(d.submit(bad, 1, at(0)).refusal, Refusal::kInvalidJob);
  bad = job(1);
  bad.cap = Tokens{0};
  EXPECT_EQ(d.submit(bad, 1, at(0)).refusal, Refusal::kInvalidJob);
  bad = job(1);
  bad.weight = 0;
  EXPECT_EQ(d.submit(bad, 1, at(0)).refusal, Refusal::kInvalidJob);
}

TEST(Admission, DeadlineThatTheDrainRateCannotMeetIsRefused) {
  auto d = with_backends({{"a", {"m"}, 1}});
  submit(d, job(1));
  ASSERT_TRUE(d.next(at(0)));
  ASSERT_TRUE(d.complete(JobId{1}, Outcome::kCompleted, at(2)));
  submit(d, job(2, 2), at(2));
  ASSERT_TRUE(d.next(at(2)));
  for (std::uint64_t id = 10; id < 15; ++id) submit(d, job(id, 2), at(2));
  // Six departures at 0.5 a second stand before it.
  EXPECT_NEAR(to_seconds(*d.expected_wait("m", at(2))), 12, 0.5);
  Job hurried = job(20, 2);
  hurried.deadline = at(2 + 5);
  const Submission s = d.submit(hurried, 1, at(2));
  EXPECT_EQ(s.refusal, Refusal::kDeadline);
  EXPECT_NEAR(to_seconds(*s.retry_after), 7, 0.5);
  hurried.deadline = at(2 + 30);
  EXPECT_FALSE(d.submit(hurried, 1, at(2)).refusal);
}

TEST(Admission, DeadlineIsNotJudgedWhileNothingIsKnown) {
  auto d = with_backends({{"a", {"m"}, 1}});
  for (std::uint64_t id = 1; id < 9; ++id) submit(d, job(id));
  Job hurried = job(20);
  hurried.deadline = at(0.001);
  EXPECT_FALSE(d.submit(hurried, 1, at(0)).refusal);
  hurried.id = JobId{21};
  EXPECT_EQ(d.submit(hurried, 1, at(1)).refusal, Refusal::kDeadline) << "it has passed";
}

TEST(Admission, DrainingRefusesAndLetsTheRestEnd) {
  auto d = with_backends({{"a", {"m"}, 1}});
  submit(d, job(1));
  submit(d, job(2));
  ASSERT_TRUE(d.next(at(0)));
  d.drain();
  EXPECT_EQ(d.submit(job(3), 1, at(0)).refusal, Refusal::kDraining);
  ASSERT_TRUE(d.complete(JobId{1}, Outcome::kCompleted, at(4)));
  ASSERT_TRUE(d.next(at(4)));
  EXPECT_NEAR(to_seconds(*d.submit(job(3), 1, at(4)).retry_after), 4, 0.3);
  EXPECT_FALSE(d.idle());
  ASSERT_TRUE(d.complete(JobId{2}, Outcome::kCompleted, at(5)));
  EXPECT_TRUE(d.idle());
}

TEST(ExpectedWait, IsZeroWithAFreeSlotAndUnknownWithoutEvidenceOrBackends) {
  auto d = with_backends({{"a", {"m"}, 1}});
  EXPECT_EQ(d.expected_wait("m", at(0)), Duration::zero());
  submit(d, job(1));
  ASSERT_TRUE(d.next(at(0)));
  EXPECT_FALSE(d.expected_wait("m", at(0)));
  EXPECT_FALSE(d.expected_wait("other", at(0)));
  ASSERT_TRUE(d.complete(JobId{1}, Outcome::kCompleted, at(1)));
  ASSERT_TRUE(d.set_health("a", false, at(1)));
  EXPECT_FALSE(d.expected_wait("m", at(1)));
}

TEST(DrainRate, IdleTimeDoesNotLowerItAndMoreSlotsRaiseIt) {
  auto d = with_backends({{"a", {"m"}, 1}});
  submit(d, job(1));
  EXPECT_FALSE(pool(d, "m").drain_per_second);
  ASSERT_TRUE(d.next(at(0)));
  ASSERT_TRUE(d.complete(JobId{1}, Outcome::kCompleted, at(0.5)));
  EXPECT_NEAR(*pool(d, "m", at(0.5)).drain_per_second, 2, 0.01);
  EXPECT_NEAR(*pool(d, "m", at(7200)).drain_per_second, 2, 0.01);
  ASSERT_TRUE(d.put_backend({"a", {"m"}, 4}, at(7200)));
  EXPECT_NEAR(*pool(d, "m", at(7200)).drain_per_second, 8, 0.04);
}

TEST(DrainRate, AnEngineThatStopsAnsweringDrainsEverSlower) {
  auto d = with_backends({{"a", {"m"}, 1}});
  submit(d, job(1));
  submit(d, job(2));
  ASSERT_TRUE(d.next(at(0)));
  ASSERT_TRUE(d.complete(JobId{1}, Outcome::kCompleted, at(1)));
  ASSERT_TRUE(d.next(at(1)));
  EXPECT_NEAR(*pool(d, "m", at(1)).drain_per_second, 1, 0.01);
  EXPECT_LT(*pool(d, "m", at(120)).drain_per_second, 0.01);
}

// --- choice of backend

TEST(Choice, TakesTheSmallestFractionInUseThenTheSmallerName) {
  auto d = with_backends({{"big", {"m"}, 4}, {"alpha", {"m"}, 2}, {"zeta", {"m"}, 2}});
  for (std::uint64_t id = 1; id <= 8; ++id) submit(d, job(id, double(id)));
  EXPECT_THAT(assign_all(d, at(9)), ElementsAre("1→alpha", "2→big", "3→zeta", "4→big", "5→alpha",
                                                "6→big", "7→zeta", "8→big"));
}

TEST(Choice, UnhealthyBackendGetsNothingAndDoesNotCount) {
  auto d = with_backends({{"a", {"m"}, 8}, {"b", {"m"}, 1}});
  ASSERT_TRUE(d.set_health("a", false, at(0)));
  submit(d, job(1));
  submit(d, job(2, 1));
  EXPECT_EQ(pool(d, "m").slots, 1);
  EXPECT_THAT(assign_all(d, at(1)), ElementsAre("1→b"));
  ASSERT_TRUE(d.set_health("a", true, at(1)));
  EXPECT_THAT(assign_all(d, at(1)), ElementsAre("2→a"));
}

TEST(Choice, BackendThatBacksOffWaitsUntilItsTime) {
  auto d = with_backends({{"a", {"m"}, 1}});
  submit(d, job(1));
  ASSERT_TRUE(d.set_backoff("a", at(5)));
  EXPECT_FALSE(d.next(at(4.999)));
  EXPECT_EQ(d.wake_at(at(1)), at(5));
  EXPECT_THAT(assign_all(d, at(5)), ElementsAre("1→a"));
  EXPECT_FALSE(d.wake_at(at(5)));
}

TEST(Choice, NobodyIsWokenForAnEmptyQueueOrADeadBackend) {
  auto d = with_backends({{"a", {"m"}, 1}});
  ASSERT_TRUE(d.set_backoff("a", at(5)));
  EXPECT_FALSE(d.wake_at(at(1)));
  submit(d, job(1));
  ASSERT_TRUE(d.set_health("a", false, at(1)));
  EXPECT_FALSE(d.wake_at(at(1)));
}

TEST(Choice, ReturnedJobTriesEveryBackendBeforeItBeginsAnew) {
  auto d = with_backends({{"a", {"m"}, 2}, {"b", {"m"}, 2}, {"c", {"m"}, 2}});
  submit(d, job(1));
  for (const std::string name : {"a", "b", "c", "a", "b", "c"}) {
    EXPECT_THAT(assign_all(d, at(0)), ElementsAre("1→" + name));
    ASSERT_TRUE(d.requeue(JobId{1}, name, at(0)));
  }
}

TEST(Choice, ReturnedJobWaitsForABusyBackendWhileOthersPassIt) {
  auto d = with_backends({{"a", {"m"}, 1}, {"b", {"m"}, 1}});
  submit(d, job(1));
  submit(d, job(2, 1));
  EXPECT_THAT(assign_all(d, at(1)), ElementsAre("1→a", "2→b"));
  ASSERT_TRUE(d.requeue(JobId{1}, "a", at(2)));
  EXPECT_FALSE(d.next(at(2)));
  submit(d, job(3, 3), at(3));
  EXPECT_THAT(assign_all(d, at(3)), ElementsAre("3→a"));
  ASSERT_TRUE(d.complete(JobId{2}, Outcome::kCompleted, at(4)));
  EXPECT_THAT(assign_all(d, at(4)), ElementsAre("1→b"));
}

TEST(Choice, OverdueJobReturnsEvenToTheBackendThatRefusedIt) {
  DispatchConfig config;
  config.waiting_bound = seconds(60);
  auto d = with_backends({{"a", {"m"}, 1}, {"b", {"m"}, 1}}, config);
  submit(d, job(1));
  submit(d, job(2, 1));
  ASSERT_THAT(assign_all(d, at(1)), ElementsAre("1→a", "2→b"));
  ASSERT_TRUE(d.requeue(JobId{1}, "a", at(2)));
  EXPECT_FALSE(d.next(at(2)));
  EXPECT_EQ(d.wake_at(at(2)), at(60));
  EXPECT_FALSE(d.next(at(59)));
  EXPECT_THAT(assign_all(d, at(60)), ElementsAre("1→a"));
}

TEST(Choice, AvoidedBackendIsTakenWhenNoOtherIsUsable) {
  auto d = with_backends({{"a", {"m"}, 1}, {"b", {"m"}, 1}});
  submit(d, job(1));
  ASSERT_TRUE(d.next(at(0)));
  ASSERT_TRUE(d.set_health("b", false, at(0)));
  ASSERT_TRUE(d.requeue(JobId{1}, "a", at(0)));
  EXPECT_THAT(assign_all(d, at(0)), ElementsAre("1→a"));
}

// --- jobs of several slots

Job wide(std::uint64_t id, int slots, double arrival_s = 0, std::string model = "m") {
  Job wide = job(id, arrival_s, std::move(model));
  wide.slots = slots;
  return wide;
}

DispatchConfig arrival_order(std::optional<Duration> bound = seconds(60)) {
  DispatchConfig config;
  config.policy = "fcfs";
  config.waiting_bound = bound;
  return config;
}

TEST(WideJob, TakesAllItsSlotsOnOneBackendAndReleasesThem) {
  auto d = with_backends({{"a", {"m"}, 3}, {"b", {"m"}, 4}}, arrival_order());
  submit(d, wide(1, 4));
  EXPECT_THAT(assign_all(d, at(0)), ElementsAre("1→b"));
  EXPECT_EQ(backend(d, "b").running, 4);
  ASSERT_TRUE(d.complete(JobId{1}, Outcome::kCompleted, at(1)));
  EXPECT_EQ(backend(d, "b").running, 0);
}

TEST(WideJob, IsNotStarvedByNarrowOnesBehindIt) {
  auto d = with_backends({{"a", {"m"}, 2}}, arrival_order());
  submit(d, job(1, 1));
  submit(d, job(2, 2));
  submit(d, wide(3, 2, 3));
  submit(d, job(4, 4));
  EXPECT_THAT(assign_all(d, at(5)), ElementsAre("1→a", "2→a"));
  ASSERT_TRUE(d.complete(JobId{1}, Outcome::kCompleted, at(6)));
  EXPECT_THAT(assign_all(d, at(6)), IsEmpty());  // the free slot waits for job 3
  ASSERT_TRUE(d.complete(JobId{2}, Outcome::kCompleted, at(7)));
  EXPECT_THAT(assign_all(d, at(7)), ElementsAre("3→a"));
}

TEST(WideJob, LetsOthersUseTheBackendsThatItDidNotReserve) {
  auto d = with_backends({{"a", {"m"}, 2}, {"b", {"m"}, 1}}, arrival_order());
  submit(d, job(1, 1));
  submit(d, wide(3, 2, 2));
  submit(d, job(4, 3));
  EXPECT_THAT(assign_all(d, at(3)), ElementsAre("1→a", "4→b"));
}

TEST(WideJob, OverdueIsPassedByNobody) {
  auto d = with_backends({{"a", {"m"}, 2}, {"b", {"m"}, 1}}, arrival_order(seconds(10)));
  submit(d, job(1, 1));
  ASSERT_TRUE(d.next(at(1)));
  submit(d, wide(3, 2, 2));
  submit(d, job(4, 3));
  EXPECT_FALSE(d.next(at(20)));
  ASSERT_TRUE(d.complete(JobId{1}, Outcome::kCompleted, at(21)));
  EXPECT_THAT(assign_all(d, at(21)), ElementsAre("3→a", "4→b"));
}

TEST(WideJob, ThatNoUsableBackendCouldHoldBlocksNobody) {
  auto d = with_backends({{"a", {"m"}, 4}, {"b", {"m"}, 1}}, arrival_order(seconds(10)));
  submit(d, wide(1, 4, 0));
  submit(d, job(2, 1));
  ASSERT_TRUE(d.remove_backend("a", at(1)));
  EXPECT_THAT(assign_all(d, at(100)), ElementsAre("2→b"));
}

TEST(WideJob, OfOneModelIsNotStarvedByAnotherModelOnTheSameBackend) {
  auto d = with_backends({{"a", {"m", "n"}, 2}}, arrival_order());
  submit(d, job(1, 0, "n"));
  submit(d, job(2, 0, "n"));
  ASSERT_THAT(assign_all(d, at(0)), SizeIs(2));
  submit(d, wide(10, 2, 1, "m"));
  for (std::uint64_t id = 3; id < 9; ++id) submit(d, job(id, 1, "n"));
  ASSERT_TRUE(d.complete(JobId{1}, Outcome::kCompleted, at(2)));
  EXPECT_FALSE(d.next(at(2)));
  ASSERT_TRUE(d.complete(JobId{2}, Outcome::kCompleted, at(3)));
  EXPECT_THAT(assign_all(d, at(3)), ElementsAre("10→a"));
}

// --- pools

TEST(Pools, AJobOfOneModelNeverBlocksAnothers) {
  auto d = with_backends({{"a", {"m"}, 1}, {"b", {"n"}, 1}});
  for (std::uint64_t id = 1; id <= 5; ++id) submit(d, job(id, 0, "m"));
  submit(d, job(9, 1, "n"));
  EXPECT_THAT(assign_all(d, at(1)), Contains("9→b"));
}

TEST(Pools, TakeTurnsOnASharedBackend) {
  auto d = with_backends({{"shared", {"m", "n"}, 1}, {"own", {"z"}, 1}}, arrival_order());
  for (std::uint64_t id = 1; id <= 40; ++id) submit(d, job(id, 0, "m"));
  for (std::uint64_t id = 101; id <= 140; ++id) submit(d, job(id, 0, "n"));
  for (std::uint64_t id = 201; id <= 240; ++id) submit(d, job(id, 0, "z"));
  // A third pool on its own backend must not upset whose turn it is.
  int m = 0;
  int n = 0;
  for (int turn = 0; turn < 20; ++turn) {
    std::vector<JobId> running;
    while (const auto next = d.next(at(0))) {
      running.push_back(next->job.id);
      m += next->job.model == "m";
      n += next->job.model == "n";
    }
    for (const JobId id : running) ASSERT_TRUE(d.complete(id, Outcome::kCompleted, at(0)));
  }
  EXPECT_EQ(m, 10);
  EXPECT_EQ(n, 10);
}

TEST(Pools, WaitingJobsOutliveTheirLastBackendAndShowThatNobodyTakesThem) {
  auto d = with_backends({{"a", {"m"}, 1}});
  submit(d, job(1));
  ASSERT_TRUE(d.remove_backend("a", at(0)));
  EXPECT_THAT(d.backends(), IsEmpty());
  EXPECT_EQ(pool(d, "m").backends, 0);
  EXPECT_EQ(pool(d, "m").slots, 0);
  EXPECT_FALSE(d.next(at(1)));
  EXPECT_EQ(d.submit(job(2), 1, at(1)).refusal, Refusal::kUnknownModel);
  ASSERT_TRUE(d.put_backend({"b", {"m"}, 1}, at(2)));
  EXPECT_THAT(assign_all(d, at(2)), ElementsAre("1→b"));
}

TEST(Pools, DisappearWithTheirLastBackendAndJob) {
  auto d = with_backends({{"a", {"m"}, 1}});
  submit(d, job(1));
  submit(d, job(2));
  ASSERT_TRUE(d.next(at(0)));
  ASSERT_TRUE(d.remove_backend("a", at(0)));
  EXPECT_THAT(d.pools(at(0)), SizeIs(1));
  ASSERT_TRUE(d.complete(JobId{1}, Outcome::kCompleted, at(1)));
  EXPECT_THAT(d.pools(at(0)), SizeIs(1));
  EXPECT_TRUE(d.cancel(JobId{2}, at(1)));
  EXPECT_THAT(d.pools(at(0)), IsEmpty());
}

TEST(Pools, OldestWaitCountsFromTheEarliestArrival) {
  auto d = with_backends({{"a", {"m"}, 1}});
  submit(d, job(1, 3), at(3));
  submit(d, job(2, 1), at(3));
  EXPECT_EQ(pool(d, "m", at(5)).oldest_wait, seconds(4));
  EXPECT_EQ(pool(d, "m", at(5)).waiting, 2u);
}

TEST(Pools, PolicyMayChangeWhileJobsWait) {
  auto d = with_backends({{"a", {"m"}, 1}});
  submit(d, job(1, 0));
  submit(d, job(2, 1));
  d.set_law(JobId{1}, law(7), at(1));
  d.set_law(JobId{2}, law(2), at(1));
  ASSERT_TRUE(d.set_policy("fcfs"));
  EXPECT_EQ(pool(d, "m").policy, "fcfs");
  EXPECT_EQ(d.explain(JobId{1}, at(1))->place->position, 0u);
  EXPECT_EQ(d.set_policy("best").error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(pool(d, "m").policy, "fcfs");
  ASSERT_TRUE(d.put_backend({"b", {"n"}, 1}, at(1)));
  EXPECT_EQ(pool(d, "n").policy, "fcfs");
}

TEST(Pools, QueueListsJobsInTheOrderTheyWouldGo) {
  auto d = with_backends({{"a", {"m"}, 1}});
  for (std::uint64_t id = 1; id <= 4; ++id) {
    submit(d, job(id, 0));
    d.set_law(JobId{id}, law(9.0 - double(id)), at(0));
  }
  std::vector<std::uint64_t> ids;
  for (const Job* j : d.queue("m", at(0), 3)) ids.push_back(j->id.count());
  EXPECT_THAT(ids, ElementsAre(4, 3, 2));
  EXPECT_THAT(d.queue("other", at(0), 3), IsEmpty());
}

// --- backends that come, change and go

TEST(Backends, BadSpecsNameTheFieldAndChangeNothing) {
  auto d = dispatcher();
  EXPECT_THAT(d.put_backend({"", {"m"}, 1}, at(0)).error().message, HasSubstr("name"));
  EXPECT_THAT(d.put_backend({"a", {}, 1}, at(0)).error().message, HasSubstr("models"));
  EXPECT_THAT(d.put_backend({"a", {""}, 1}, at(0)).error().message, HasSubstr("empty"));
  EXPECT_THAT(d.put_backend({"a", {"m", "m"}, 1}, at(0)).error().message, HasSubstr("twice"));
  EXPECT_THAT(d.put_backend({"a", {"m"}, 0}, at(0)).error().message, HasSubstr("slots is 0"));
  EXPECT_THAT(d.backends(), IsEmpty());
  EXPECT_THAT(d.pools(at(0)), IsEmpty());
}

TEST(Backends, UnknownNamesAreErrors) {
  auto d = dispatcher();
  EXPECT_EQ(d.remove_backend("x", at(0)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(d.set_health("x", true, at(0)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(d.set_backoff("x", at(0)).error().code, ErrorCode::kNotFound);
}

TEST(Backends, RemovedUnderRunningJobsDrainsThenDisappears) {
  auto d = with_backends({{"a", {"m"}, 2}, {"b", {"m"}, 1}});
  submit(d, job(1));
  ASSERT_TRUE(d.next(at(0)));
  ASSERT_TRUE(d.remove_backend("a", at(1)));
  EXPECT_TRUE(backend(d, "a").draining);
  submit(d, job(2, 1), at(1));
  submit(d, job(3, 2), at(2));
  EXPECT_THAT(assign_all(d, at(2)), ElementsAre("2→b"));
  ASSERT_TRUE(d.complete(JobId{1}, Outcome::kCompleted, at(3)));
  EXPECT_THAT(d.backends(), SizeIs(1));
}

TEST(Backends, DrainingOneComesBackWithItsRunningJobs) {
  auto d = with_backends({{"a", {"m"}, 2}});
  submit(d, job(1));
  ASSERT_TRUE(d.next(at(0)));
  ASSERT_TRUE(d.remove_backend("a", at(1)));
  ASSERT_TRUE(d.put_backend({"a", {"m"}, 2}, at(2)));
  EXPECT_FALSE(backend(d, "a").draining);
  EXPECT_EQ(backend(d, "a").running, 1);
  submit(d, job(2, 3), at(3));
  submit(d, job(3, 4), at(4));
  EXPECT_THAT(assign_all(d, at(4)), ElementsAre("2→a"));
}

TEST(Backends, FewerSlotsThanRunningJobsTakeNothingUntilItFits) {
  auto d = with_backends({{"a", {"m"}, 3}});
  for (std::uint64_t id = 1; id <= 4; ++id) submit(d, job(id, double(id)));
  ASSERT_THAT(assign_all(d, at(4)), SizeIs(3));
  ASSERT_TRUE(d.put_backend({"a", {"m"}, 1}, at(5)));
  ASSERT_TRUE(d.complete(JobId{1}, Outcome::kCompleted, at(6)));
  ASSERT_TRUE(d.complete(JobId{2}, Outcome::kCompleted, at(6)));
  EXPECT_FALSE(d.next(at(6)));
  ASSERT_TRUE(d.complete(JobId{3}, Outcome::kCompleted, at(6)));
  EXPECT_THAT(assign_all(d, at(6)), ElementsAre("4→a"));
}

TEST(Backends, ChangedModelsKeepTheRunningJobsOfTheOldOnes) {
  auto d = with_backends({{"a", {"m"}, 1}});
  submit(d, job(1));
  ASSERT_TRUE(d.next(at(0)));
  ASSERT_TRUE(d.put_backend({"a", {"n"}, 1}, at(1)));
  EXPECT_FALSE(d.serves("m"));
  submit(d, job(2, 1, "n"), at(1));
  EXPECT_FALSE(d.next(at(1)));  // its slot is still in use
  EXPECT_EQ(pool(d, "m").running, 1u);
  ASSERT_TRUE(d.complete(JobId{1}, Outcome::kCompleted, at(2)));
  EXPECT_THAT(d.pools(at(2)), SizeIs(1));
  EXPECT_THAT(assign_all(d, at(2)), ElementsAre("2→a"));
}

TEST(Backends, JobReturnedFromARemovedBackendWaitsForAnother) {
  auto d = with_backends({{"a", {"m"}, 1}});
  submit(d, job(1));
  ASSERT_TRUE(d.next(at(0)));
  ASSERT_TRUE(d.remove_backend("a", at(1)));
  ASSERT_TRUE(d.requeue(JobId{1}, "a", at(1)));
  EXPECT_THAT(d.backends(), IsEmpty());
  ASSERT_TRUE(d.put_backend({"a", {"m"}, 1}, at(2)));
  EXPECT_THAT(assign_all(d, at(2)), ElementsAre("1→a"));
}

// --- explain

TEST(Explain, TellsTheStoryOfAJob) {
  auto d = with_backends({{"a", {"m"}, 1}});
  submit(d, job(1, 10), at(10));
  d.set_law(JobId{1}, law(5), at(10.25));
  const auto waiting = d.explain(JobId{1}, at(10.25));
  EXPECT_EQ(waiting->state, "waiting");
  EXPECT_THAT(waiting->place->rule, HasSubstr("log-t mu 5"));
  ASSERT_TRUE(d.next(at(10.5)));
  EXPECT_EQ(d.explain(JobId{1}, at(11))->backend, "a");
  ASSERT_TRUE(d.requeue(JobId{1}, "a", at(11)));
  ASSERT_TRUE(d.next(at(12)));
  ASSERT_TRUE(d.complete(JobId{1}, Outcome::kCompleted, at(13)));
  const auto ended = d.explain(JobId{1}, at(20));
  EXPECT_EQ(ended->state, "ended");
  EXPECT_EQ(ended->model, "m");
  EXPECT_THAT(ended->notes, ElementsAre("+0.000 s submitted", "+0.250 s its length was predicted",
                                        "+0.500 s sent to a",
                                        "+1.000 s returned from a to its place in the queue",
                                        "+2.000 s sent to a", "+3.000 s completed on a"));
}

TEST(Explain, RemembersABoundedNumberOfEndedJobs) {
  DispatchConfig config;
  config.ended_jobs_remembered = 3;
  auto d = with_backends({{"a", {"m"}, 1}}, config);
  for (std::uint64_t id = 1; id <= 5; ++id) {
    submit(d, job(id));
    ASSERT_TRUE(d.cancel(JobId{id}, at(1)));
  }
  EXPECT_EQ(d.explain(JobId{2}, at(1)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(d.explain(JobId{3}, at(1))->state, "ended");
  EXPECT_THAT(d.explain(JobId{5}, at(1))->notes, Contains("+1.000 s cancelled while waiting"));
}

TEST(Explain, NotesOfAJobThatReturnsForEverAreBounded) {
  auto d = with_backends({{"a", {"m"}, 1}});
  submit(d, job(1));
  for (int i = 1; i <= 1000; ++i) {
    ASSERT_TRUE(d.next(at(i)));
    ASSERT_TRUE(d.requeue(JobId{1}, "a", at(i)));
  }
  const auto notes = d.explain(JobId{1}, at(1000))->notes;
  EXPECT_LT(notes.size(), 20u);
  EXPECT_EQ(notes.front(), "+0.000 s submitted");
  EXPECT_THAT(notes[1], HasSubstr("earlier notes were dropped"));
  EXPECT_THAT(notes.back(), HasSubstr("+1000.000 s returned"));
}

TEST(Make, UnknownPolicyIsAnError) {
  DispatchConfig config;
  config.policy = "fastest";
  EXPECT_EQ(Dispatcher::make(config).error().code, ErrorCode::kInvalidArgument);
}

// --- which backend

Dispatcher three_backends(std::string choice, int slots) {
  DispatchConfig config;
  config.policy = "fcfs";
  config.choice = std::move(choice);
  return with_backends({{"a", {"m"}, slots}, {"b", {"m"}, slots}, {"c", {"m"}, slots}}, config);
}

TEST(DispatcherChoice, UnknownChoiceIsRefusedWithTheNames) {
  DispatchConfig config;
  config.choice = "best";
  const auto made = Dispatcher::make(config);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("least-work"));
}

TEST(DispatcherChoice, RoundRobinTakesTurnsWhateverEnds) {
  auto d = three_backends("round-robin", 4);
  submit(d, job(1));
  EXPECT_THAT(assign_all(d, at(0)), ElementsAre("1→a"));
  ASSERT_TRUE(d.complete(JobId{1}, Outcome::kCompleted, at(1)));
  for (std::uint64_t id = 2; id <= 5; ++id) submit(d, job(id), at(1));
  EXPECT_THAT(assign_all(d, at(1)), ElementsAre("2→b", "3→c", "4→a", "5→b"));
}

TEST(DispatcherChoice, RoundRobinSkipsTheFull) {
  auto d = three_backends("round-robin", 1);
  for (std::uint64_t id = 1; id <= 3; ++id) submit(d, job(id));
  EXPECT_THAT(assign_all(d, at(0)), ElementsAre("1→a", "2→b", "3→c"));
  ASSERT_TRUE(d.complete(JobId{2}, Outcome::kCompleted, at(1)));
  submit(d, job(4), at(1));
  EXPECT_THAT(assign_all(d, at(1)), ElementsAre("4→b"));
}

TEST(DispatcherChoice, LeastWorkPrefersManyShortAnswersToOneLong) {
  auto d = three_backends("least-work", 8);
  Job one = job(1);
  one.law = law(7);  // about 1,100 tokens
  Job two = job(2);
  two.law = law(6.9);
  submit(d, one);
  submit(d, two);
  EXPECT_THAT(assign_all(d, at(0)), ElementsAre("1→a", "2→b"));
  for (std::uint64_t id = 3; id <= 6; ++id) {
    Job next = job(id);
    next.law = law(4);  // about 60
    submit(d, next);
  }
  EXPECT_THAT(assign_all(d, at(0)), ElementsAre("3→c", "4→c", "5→c", "6→c"));
}

TEST(DispatcherChoice, LeastWorkCountsTheCapUntilThePredictionComes) {
  auto d = three_backends("least-work", 8);
  for (std::uint64_t id = 1; id <= 3; ++id) submit(d, job(id));
  EXPECT_THAT(assign_all(d, at(0)), ElementsAre("1→a", "2→b", "3→c"));
  d.set_law(JobId{2}, law(3), at(1));
  submit(d, job(4), at(1));
  EXPECT_THAT(assign_all(d, at(1)), ElementsAre("4→b"));
  ASSERT_TRUE(d.complete(JobId{4}, Outcome::kCompleted, at(2)));
  ASSERT_TRUE(d.complete(JobId{3}, Outcome::kCompleted, at(2)));
  submit(d, job(5), at(2));
  EXPECT_THAT(assign_all(d, at(2)), ElementsAre("5→c"));
}

TEST(DispatcherChoice, PrefixKeepsConversationsTogetherWithinBounds) {
  auto d = three_backends("prefix", 16);
  const auto send = [&d](std::uint64_t id, std::uint64_t prefix) {
    Job next = job(id);
    next.prefix = prefix;
    submit(d, next);
    return d.next(at(0))->backend;
  };
  const std::string home = send(1, 42);
  EXPECT_EQ(send(2, 42), home);
  // Only one conversation: beyond an eighth of its slots, and 1.25 times a third of all, others
  // help.
  std::map<std::string, int> share{{home, 2}};
  for (std::uint64_t id = 3; id <= 24; ++id) ++share[send(id, 42)];
  EXPECT_THAT(share, SizeIs(3));
  EXPECT_LE(share[home], 10);
  EXPECT_GE(share[home], 8);
}

TEST(DispatcherChoice, PrefixSpreadsConversationsAndMovesFewWhenOneBackendLeaves) {
  auto d = three_backends("prefix", 4096);
  std::map<std::uint64_t, std::string> homes;
  const auto place_all = [&d](std::uint64_t first_id) {
    std::map<std::uint64_t, std::string> places;
    for (std::uint64_t prefix = 1; prefix <= 300; ++prefix) {
      Job next = job(first_id + prefix);
      next.prefix = prefix;
      submit(d, next);
      places[prefix] = d.next(at(0))->backend;
    }
    return places;
  };
  homes = place_all(0);
  std::map<std::string, int> share;
  for (const auto& [prefix, name] : homes) ++share[name];
  for (const auto& [name, count] : share) EXPECT_GT(count, 60) << name;
  ASSERT_TRUE(d.set_health("b", false, at(1)));
  int moved = 0;
  for (const auto& [prefix, name] : place_all(1000)) moved += name != homes[prefix];
  EXPECT_EQ(moved, share["b"]);
}

}  // namespace
}  // namespace tailrace::dispatch
