// Public reports about autoscalers that saw the wrong signal or moved by it too late, too far or to
// and fro, held against the control loop over a simulated fleet. Names carry the repository and the
// number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

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

/// One variant, `tp4`, so that numbers of replicas say everything.
SimulatedFleet one_variant(double seconds, int engines, std::vector<simulate::RatePoint> profile) {
  SimulatedFleet fleet = constant_fleet(1, seconds, engines, 0, 1);
  fleet.variants.pop_back();
  fleet.variants[0].max.reset();
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

int changes_of_direction(const FleetRun& run, double from_s) {
  int changes = 0, direction = 0;
  for (std::size_t i = 1; i < run.cycles.size(); ++i) {
    if (run.cycles[i].time_s < from_s) continue;
    const std::int64_t change = total(run.cycles[i].wanted) - total(run.cycles[i - 1].wanted);
    if (change == 0) continue;
    const int now = change > 0 ? 1 : -1;
    if (direction != 0 && now != direction) ++changes;
    direction = now;
  }
  return changes;
}

std::int64_t most_wanted(const FleetRun& run) {
  std::int64_t most = 0;
  for (const FleetCycle& cycle : run.cycles) most = std::max(most, total(cycle.wanted));
  return most;
}

// Bursty load from 1 to 24 requests/s; the planner's estimate had no queue in it, TTFT was 160 s
// against 3 s, goodput 9 %, and it never scaled.
TEST(Dynamo10528, ReplicasRiseBeforeTheQueueOfABurstyLoadTakesTheTtft) {
  std::vector<simulate::RatePoint> wave;
  for (int k = 0; k <= 120; ++k) {
    wave.push_back({k * 15.0, 12.5 - 11.5 * std::cos(2 * 3.14159265358979 * k / 40)});
  }
  const auto run = under_control(one_variant(1'800, 1, wave));
  // In half a wave the rate grows 24-fold, faster than anybody foresees from one replica.
  EXPECT_GE(run.goodput(kTargets, 0, 1'800), 0.75);
  EXPECT_GE(most_wanted(run), 4);
  EXPECT_EQ(run.totals.completed, run.totals.offered);
}

// Clients that wait for their answers come no faster than those are made: demand measured at
// completions was capacity, and ceil(demand / capacity) 1 for ever.
TEST(Dynamo8861, ClientsThatWaitForTheirAnswersDoNotHideThatOneReplicaIsTooFew) {
  SimulatedFleet fleet = one_variant(900, 1, {{0, 1}});
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

// The average queue fell when replicas came, so they were taken away at once, with their requests.
TEST(Ray18925, AStepUpIsAnsweredWithoutReversalAndWithoutALostRequest) {
  const auto run = under_control(one_variant(1'200, 2, {{0, 8}, {300, 8}, {300, 30}}));
  // What came for the backlog goes once, when the down window has passed since it was needed.
  EXPECT_LE(changes_of_direction(run, 300), 1);
  for (std::size_t i = 1; i < run.cycles.size(); ++i) {
    const double at_s = run.cycles[i].time_s;
    if (at_s < 300 || at_s > 300 + 120) continue;
    EXPECT_GE(total(run.cycles[i].wanted), total(run.cycles[i - 1].wanted)) << at_s;
  }
  EXPECT_GE(total(run.cycles.back().wanted), 5);
  EXPECT_EQ(run.totals.completed, run.totals.offered);
  EXPECT_GE(run.goodput(kTargets, 600, 1'200), 0.99);
}

// The target was as high as what a replica holds at once, so that the queue never counted.
TEST(Ray24793, WhatWaitsInFrontCountsThoughEveryReplicaIsJustFull) {
  // All 64 places taken and 12 requests/s where 7 can go: nobody sees more than 64 in an engine.
  std::vector<CycleRecord> records;
  const auto run = under_control(one_variant(600, 1, {{0, 12}}), &records);
  EXPECT_GE(total(run.cycles.back().wanted), 2);
  EXPECT_TRUE(std::any_of(records.begin(), records.end(), [](const CycleRecord& r) {
    return r.result.models[0].backlog_per_s > 0;
  }));
  EXPECT_GE(run.goodput(kTargets, 400, 600), 0.99);
}

// No scale-down, or half an hour late.
TEST(Aibrix593, WithoutLoadReplicasGoToTheMinimumWithinTheWindowAndThreeMinutes) {
  const auto run = under_control(one_variant(1'200, 2, {{0, 25}, {600, 25}, {600, 0.02}}));
  EXPECT_GE(most_wanted(run), 4);
  for (const FleetCycle& cycle : run.cycles) {
    // Rates of a minute fall in steps, and each step waits for its own window.
    if (cycle.time_s > 600 + 120 + 180) {
      EXPECT_EQ(total(cycle.wanted), 1) << cycle.time_s;
    }
  }
}
TEST(Aibrix1159, AFallOfTheLoadIsFollowedOnceTheDownWindowHasPassed) {
  const auto run = under_control(one_variant(1'200, 5, {{0, 28}, {600, 28}, {600, 7}}));
  for (const FleetCycle& cycle : run.cycles) {
    if (cycle.time_s > 500 && cycle.time_s < 600) {
      EXPECT_GE(total(cycle.wanted), 4);
    }
    if (cycle.time_s > 600 + 120 + 75) {
      EXPECT_LE(total(cycle.wanted), 2) << cycle.time_s;
    }
  }
}

// The scaler did not begin with the replicas that there are.
TEST(Aibrix515, ARestartInSteadyStateMovesNothing) {
  const SimulatedFleet fleet = one_variant(1'500, 4, {{0, 22}});
  const auto config = settings(settings_text());
  autoscaler::Brain brain(config.models.fleet().stabilisation);
  brain.configure(config);
  std::int64_t before = 0;
  auto run = autoscaler::run_fleet(fleet, [&](const autoscaler::Snapshot& snapshot) {
    if (snapshot.time_s == 900) {
      brain = autoscaler::Brain(config.models.fleet().stabilisation);
      brain.configure(config);
    }
    const auto record = brain.think(snapshot);
    const std::int64_t desired = record.result.decisions[0].desired;
    if (snapshot.time_s == 885) before = desired;
    if (snapshot.time_s == 900) {
      EXPECT_EQ(desired, before);
    }
    return std::vector<int>{static_cast<int>(desired)};
  });
  ASSERT_TRUE(run);
  EXPECT_EQ(total(run->cycles.back().wanted), before);
}

// Constant load for 30 minutes: replicas move once, if at all.
TEST(Ray63279, ConstantLoadForHalfAnHourIsNoReasonToComeAndGo) {
  const auto run = under_control(one_variant(2'100, 4, {{0, 22}}));
  EXPECT_LE(changes_of_direction(run, 300), 1);
  EXPECT_GE(run.goodput(kTargets, 300, 2'100), 0.99);
}

}  // namespace
}  // namespace tailrace::scenario
