// Public reports about autoscalers that saw the wrong signal or moved by it too late, too far or to
// and fro, held against the control loop over a simulated fleet. Names carry the repository and the
// number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autoscaler/clairvoyant.h"
#include "autoscaler/laws.h"
#include "autoscaler/scenario.h"

namespace tailrace::scenario {
namespace {

using autoscaler::CycleRecord;
using autoscaler::FleetCycle;
using autoscaler::FleetRun;
using autoscaler::SimulatedFleet;

std::int64_t total(const std::vector<std::int64_t>& of) {
  return std::accumulate(of.begin(), of.end(), std::int64_t{0});
}

/// Half as many cycles as the scenario has: they are what takes the time.
constexpr double kLongCycleSeconds = 30;

/// One variant, `tp4`, so that numbers of replicas say everything.
SimulatedFleet one_variant(double seconds, int engines, std::vector<simulate::RatePoint> profile) {
  SimulatedFleet fleet = simulated_scenario().constant_fleet(1, seconds, {engines, 0}, 1);
  fleet.variants.pop_back();
  fleet.variants[0].max.reset();
  fleet.run.cycle_s = kLongCycleSeconds;
  fleet.run.workload.arrivals.profile = std::move(profile);
  return fleet;
}

FleetRun under_control(const SimulatedFleet& fleet, std::vector<CycleRecord>* records = nullptr,
                       const std::string& text = settings_text()) {
  auto run = autoscaler::run_fleet(fleet, settings(text), [&](const CycleRecord& record) {
    if (records != nullptr) records->push_back(record);
  });
  EXPECT_TRUE(run) << (run ? "" : run.error().message);
  return run ? std::move(*run) : FleetRun{};
}

int changes_of_direction(const FleetRun& run, double from_s, double to_s = HUGE_VAL) {
  int changes = 0, direction = 0;
  for (std::size_t i = 1; i < run.cycles.size(); ++i) {
    if (run.cycles[i].time_s < from_s || run.cycles[i].time_s > to_s) continue;
    const std::int64_t change = total(run.cycles[i].wanted) - total(run.cycles[i - 1].wanted);
    if (change == 0) continue;
    const int now = change > 0 ? 1 : -1;
    if (direction != 0 && now != direction) ++changes;
    direction = now;
  }
  return changes;
}

/// At the last cycle before `time_s`.
std::int64_t wanted_at(const FleetRun& run, double time_s) {
  std::int64_t wanted = 0;
  for (const FleetCycle& cycle : run.cycles) {
    if (cycle.time_s < time_s) wanted = total(cycle.wanted);
  }
  return wanted;
}

std::int64_t most_wanted(const FleetRun& run, double from_s = 0) {
  std::int64_t most = 0;
  for (const FleetCycle& cycle : run.cycles) {
    if (cycle.time_s > from_s) most = std::max(most, total(cycle.wanted));
  }
  return most;
}

// Bursty load from 1 to 24 requests/s; the planner's estimate had no queue in it, TTFT was 160 s
// against 3 s, goodput 9 %, and it never scaled.
TEST(Dynamo10528, ReplicasRiseBeforeTheQueueOfABurstyLoadTakesTheTtft) {
  std::vector<simulate::RatePoint> wave;
  for (int k = 0; k <= 40; ++k) {
    wave.push_back({k * 15.0, 12.5 - 11.5 * std::cos(2 * 3.14159265358979 * k / 40)});
  }
  SimulatedFleet fleet = one_variant(600, 1, wave);
  fleet.run.cycle_s = kCycleSeconds;
  const auto run = under_control(fleet);
  // In half a wave the rate grows 24-fold, faster than anybody foresees from one replica.
  EXPECT_GE(run.goodput(kTargets, 0, 600), 0.75);
  EXPECT_GE(most_wanted(run), 4);
  EXPECT_EQ(run.totals.completed, run.totals.offered);
}

// Clients that wait for their answers come no faster than those are made: demand measured at
// completions was capacity, and ceil(demand / capacity) 1 for ever.
TEST(Dynamo8861, ClientsThatWaitForTheirAnswersDoNotHideThatOneReplicaIsTooFew) {
  SimulatedFleet fleet = one_variant(480, 1, {{0, 1}});
  fleet.run.closed = simulate::ClosedLoop{.clients = 200, .think_s = 2};
  const auto run = under_control(fleet);
  // 200 clients, 11 s an answer and thought: 18 requests/s, of which one replica makes 7.
  EXPECT_GE(total(run.cycles.back().wanted), 3);
  EXPECT_EQ(run.cycles.back().waiting, 0U);
}

// A forecast without bound asked for any number of replicas.
TEST(Dynamo14296, OneCycleWithAHundredTimesTheArrivalsMovesNoMoreThanTheStepCap) {
  const SimulatedFleet fleet = one_variant(600, 2, {{0, 8}});
  std::vector<CycleRecord> records;
  autoscaler::Brain brain(capacity::StabilisationConfig{});
  brain.configure(settings(settings_text()));
  auto run = autoscaler::run_fleet(fleet, [&](const autoscaler::Snapshot& seen) {
    autoscaler::Snapshot snapshot = seen;
    if (snapshot.time_s == 450) *snapshot.models[0].gateway->arrivals_per_s *= 100;
    records.push_back(brain.think(snapshot));
    return std::vector<int>{static_cast<int>(records.back().result.decisions[0].desired)};
  });
  ASSERT_TRUE(run);
  const auto at = std::find_if(records.begin(), records.end(),
                               [](const CycleRecord& r) { return r.time_s == 450; });
  ASSERT_NE(at, records.end());
  EXPECT_THAT(at->result.models[0].notes,
              ::testing::Contains(::testing::HasSubstr("as many as lately: counted as")));
  const auto& decision = at->result.decisions[0];
  EXPECT_LE(decision.desired, decision.observed() + 4);
  EXPECT_LE(most_wanted(*run), 6);
}

/// Load that steps up, falls and ends, in one run for several reports.
constexpr double kStepAt = 180, kFallAt = 570, kEndAt = 810, kUntil = 1'200;

struct Stepped {
  FleetRun run;
  double learnt_per_s = 0;  ///< of one replica, when the step had been answered
};

const Stepped& stepped_fleet() {
  static const Stepped made = [] {
    Stepped out;
    std::vector<CycleRecord> records;
    out.run = under_control(one_variant(kUntil, 2,
                                        {{0, 8},
                                         {kStepAt, 8},
                                         {kStepAt, 30},
                                         {kFallAt, 30},
                                         {kFallAt, 7},
                                         {kEndAt, 7},
                                         {kEndAt, 0.02}}),
                            &records);
    for (const auto& record : records) {
      if (record.time_s >= kFallAt) continue;
      out.learnt_per_s = record.result.models.at(0).variants.at(0).per_replica_per_s;
    }
    return out;
  }();
  return made;
}
const FleetRun& stepped() {
  return stepped_fleet().run;
}

// The average queue fell when replicas came, so they were taken away at once, with their requests.
TEST(Ray18925, AStepUpIsAnsweredWithoutReversalAndWithoutALostRequest) {
  const auto& run = stepped();
  for (std::size_t i = 1; i < run.cycles.size(); ++i) {
    const double at_s = run.cycles[i].time_s;
    if (at_s < kStepAt || at_s > kStepAt + 120) continue;
    EXPECT_GE(total(run.cycles[i].wanted), total(run.cycles[i - 1].wanted)) << at_s;
  }
  // What came for the backlog goes once, when the down window has passed since it was needed.
  EXPECT_LE(changes_of_direction(run, kStepAt, kFallAt), 1);
  EXPECT_GE(wanted_at(run, kFallAt), 5);
  EXPECT_EQ(run.totals.completed, run.totals.offered);
  EXPECT_GE(run.goodput(kTargets, kStepAt + 240, kFallAt), 0.99);
}

// The target was as high as what a replica holds at once, so that the queue never counted.
TEST(Ray24793, WhatWaitsInFrontCountsThoughEveryReplicaIsJustFull) {
  // All 64 places taken and 12 requests/s where 7 can go: nobody sees more than 64 in an engine.
  std::vector<CycleRecord> records;
  const auto run = under_control(one_variant(450, 1, {{0, 12}}), &records);
  EXPECT_GE(total(run.cycles.back().wanted), 2);
  EXPECT_TRUE(std::any_of(records.begin(), records.end(), [](const CycleRecord& r) {
    return r.result.models[0].backlog_per_s > 0;
  }));
  EXPECT_GE(run.goodput(kTargets, 300, 450), 0.99);
}

// No scale-down, or half an hour late.
TEST(Aibrix593, WithoutLoadReplicasGoToTheMinimumWithinTheWindowAndThreeMinutes) {
  const auto& run = stepped();
  EXPECT_GE(most_wanted(run), 4);
  // Rates of a minute fall in steps, and each step waits for its own window.
  EXPECT_EQ(most_wanted(run, kEndAt + 120 + 180), 1);
}
TEST(Aibrix1159, AFallOfTheLoadIsFollowedOnceTheDownWindowHasPassed) {
  const auto& run = stepped();
  EXPECT_GE(wanted_at(run, kFallAt), 4);
  EXPECT_LE(most_wanted(run, kFallAt + 120 + 90), 2);
}

/// Half an hour of one load, in the middle of which the autoscaler begins anew and knows nothing.
constexpr double kRestartAt = 1'200;

const FleetRun& constant() {
  static const FleetRun made = [] {
    const auto config = settings(settings_text());
    autoscaler::Brain brain(config.models.fleet().stabilisation);
    brain.configure(config);
    auto run = autoscaler::run_fleet(
        one_variant(2'100, 2, {{0, 10}}), [&](const autoscaler::Snapshot& snapshot) {
          if (snapshot.time_s == kRestartAt) {
            brain = autoscaler::Brain(config.models.fleet().stabilisation);
            brain.configure(config);
          }
          const auto desired = brain.think(snapshot).result.decisions.at(0).desired;
          return std::vector<int>{static_cast<int>(desired)};
        });
    EXPECT_TRUE(run);
    return run ? std::move(*run) : FleetRun{};
  }();
  return made;
}

// Replicas that had died stayed routable, and counts swung each minute between few and all; latency
// was 40 s.
TEST(Ray63279, ConstantLoadForHalfAnHourIsNoReasonToComeAndGo) {
  const auto& run = constant();
  EXPECT_LE(changes_of_direction(run, 300), 1);
  EXPECT_GE(run.goodput(kTargets, 300, 2'100), 0.99);
}

// The scaler did not begin with the replicas that there are.
TEST(Aibrix515, ARestartInSteadyStateMovesNothing) {
  const auto& run = constant();
  const auto before = wanted_at(run, kRestartAt);
  EXPECT_GE(before, 2);
  for (const FleetCycle& cycle : run.cycles) {
    if (cycle.time_s >= kRestartAt && cycle.time_s <= kRestartAt + 300) {
      EXPECT_EQ(total(cycle.wanted), before) << cycle.time_s;
    }
  }
}

// Two of five engines leave at once, and for two cycles what they said last is still reported.
TEST(Ray63279, EnginesThatAreLostAreReplacedOnceThoughTheirReportsStay) {
  constexpr double kLossAt = 420;
  const auto config = settings(settings_text());
  autoscaler::Brain brain(config.models.fleet().stabilisation);
  brain.configure(config);
  std::vector<tune::Observation> last;
  const auto run =
      autoscaler::run_fleet(one_variant(900, 5, {{0, 22}}), [&](const autoscaler::Snapshot& seen) {
        autoscaler::Snapshot snapshot = seen;
        auto& variant = snapshot.models[0].variants[0];
        const bool ghosts = seen.time_s > kLossAt && seen.time_s <= kLossAt + 2 * kLongCycleSeconds;
        for (const auto& pod : last) {
          const bool there = std::any_of(variant.pods.begin(), variant.pods.end(),
                                         [&](const auto& now) { return now.pod == pod.pod; });
          if (ghosts && !there) variant.pods.push_back(pod);
        }
        if (!ghosts) last = variant.pods;
        const auto wanted = brain.think(snapshot).result.decisions[0].desired;
        return std::vector<int>{static_cast<int>(seen.time_s == kLossAt ? 3 : wanted)};
      });
  ASSERT_TRUE(run);
  EXPECT_LE(changes_of_direction(*run, kLossAt + kLongCycleSeconds), 1);
  EXPECT_GE(wanted_at(*run, kLossAt + 3 * kLongCycleSeconds), 4);
  EXPECT_LE(most_wanted(*run, kLossAt), 8);
  for (const auto& request : run->requests) {
    ASSERT_EQ(request.end, simulate::End::kCompleted);
    EXPECT_LE(to_seconds(*request.first_token - request.arrival), 20);
  }
}

/// Replicas that were wanted, integrated.
double wanted_s(const FleetRun& run, double until_s) {
  double sum = 0;
  for (const FleetCycle& cycle : run.cycles) {
    if (cycle.time_s < until_s) sum += kLongCycleSeconds * static_cast<double>(total(cycle.wanted));
  }
  return sum;
}

FleetRun stepped_under(PodAutoscaler::Metric metric, double target) {
  auto run = autoscaler::run_fleet(one_variant(kFallAt, 2, {{0, 8}, {kStepAt, 8}, {kStepAt, 30}}),
                                   PodAutoscaler(metric, target, {1}, {20}));
  EXPECT_TRUE(run);
  return run ? std::move(*run) : FleetRun{};
}

// Slower than a plain HorizontalPodAutoscaler on the queue.
TEST(LlmdAutoscaling1248, AfterAStepFewerReplicasKeepAsManyTargetsAsUnderAnHpaOnTheQueue) {
  const double settled_s = kStepAt + 120;
  for (const double target : {1.0, 5.0}) {
    const auto hpa = stepped_under(PodAutoscaler::Metric::kQueue, target);
    EXPECT_GE(stepped().goodput(kTargets, settled_s, kFallAt),
              hpa.goodput(kTargets, settled_s, kFallAt))
        << target;
    EXPECT_LT(wanted_s(stepped(), kFallAt), wanted_s(hpa, kFallAt)) << target;
  }
}

// How full engines are was said to be signal enough; the P99 of the TTFT was 75 s.
TEST(LlmdAutoscaling1219, AStepKeepsMoreTargetsThanUnderAnHpaOnSaturation) {
  for (const double share : {0.6, 0.8}) {
    const auto hpa = stepped_under(PodAutoscaler::Metric::kConcurrency, share * 64);
    EXPECT_GT(stepped().goodput(kTargets, kStepAt, kFallAt),
              hpa.goodput(kTargets, kStepAt, kFallAt))
        << share;
  }
}

FleetRun ramped(const std::string& text) {
  SimulatedFleet fleet = one_variant(600, 2, {{0, 8}, {180, 8}, {480, 24}});
  fleet.variants[0].engines.startup = from_seconds(120);
  return under_control(fleet, nullptr, text);
}

std::string with_startup(const std::string& startup) {
  std::string text = settings_text();
  const auto at = text.find("startupTime: 30s");
  EXPECT_NE(at, std::string::npos);
  return text.replace(at, 16, "startupTime: " + startup);
}

double first_growth_s(const FleetRun& run) {
  for (const FleetCycle& cycle : run.cycles) {
    if (cycle.time_s > 180 && total(cycle.wanted) > 2) return cycle.time_s;
  }
  return HUGE_VAL;
}

// Pods take two to eight minutes to come, so what is ordered must be what is needed then, and it
// should be ordered half a minute to a minute earlier.
TEST(LlmdAutoscaling1071, ASlowStartIsOrderedForBeforeTheLoadThatNeedsItIsThere) {
  const auto foreseen = ramped(with_startup("120s")), unforeseen = ramped(with_startup("1s"));
  EXPECT_LE(first_growth_s(foreseen), first_growth_s(unforeseen) - 30) << "#1005";
  EXPECT_GE(foreseen.goodput(kTargets, 180, 600), unforeseen.goodput(kTargets, 180, 600) + 0.05);
}

// The largest rate of a server was predicted twice as high as it was.
TEST(LlmInfernoControlLoop23, TheLearntRateOfAReplicaIsTheOneThatItKeeps) {
  const double measured = simulated_scenario().largest_rate({4, 0}) / 4;
  EXPECT_LE(stepped_fleet().learnt_per_s, 1.15 * measured);
  EXPECT_GE(stepped_fleet().learnt_per_s, 0.75 * measured);
}

}  // namespace
}  // namespace tailrace::scenario
