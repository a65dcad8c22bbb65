// Which engine a request goes to, and what that does to everybody.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "support/runs.h"

namespace tailrace::simulate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Choice = FrontSpec::Choice;

RunSpec fleet_of(int engines, Choice choice) {
  RunSpec spec;
  spec.fleet.engines = engines;
  spec.fleet.engine.max_num_seqs = 8;
  spec.front.choice = choice;
  return spec;
}

/// `count` requests, one every `gap_s`; each tenth answer is long.
std::vector<Request> mixed(std::uint64_t count, double gap_s) {
  std::vector<Request> requests;
  for (std::uint64_t id = 0; id < count; ++id) {
    requests.push_back(
        testing::request(id, static_cast<double>(id) * gap_s, 100, id % 10 == 0 ? 900 : 40));
    requests.back().truth = length::LengthLaw::log_normal(id % 10 == 0 ? 6.8 : 3.7, 0.05).value();
  }
  return requests;
}

std::vector<double> shares(const testing::Ran& ran, int engines) {
  std::vector<double> shares(static_cast<std::size_t>(engines));
  for (const RequestRecord& r : ran.records) {
    shares[static_cast<std::size_t>(r.engine)] += 1 / static_cast<double>(ran.records.size());
  }
  return shares;
}

double mean_wait_s(const testing::Ran& ran) {
  double sum = 0;
  for (const RequestRecord& r : ran.records) sum += to_seconds(*r.admitted - r.arrival);
  return sum / static_cast<double>(ran.records.size());
}

TEST(Routing, RoundRobinTakesTurns) {
  auto ran = testing::run_given(fleet_of(3, Choice::kRoundRobin), mixed(6, 0.1));
  std::sort(ran.records.begin(), ran.records.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  std::vector<int> engines;
  for (const RequestRecord& r : ran.records) engines.push_back(r.engine);
  EXPECT_THAT(engines, ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST(Routing, KnowingWhatEndedBeatsTakingTurnsAndKnowingWhatIsLeftBeatsBoth) {
  const auto wait = [](Choice choice) {
    RunSpec spec = fleet_of(4, choice);
    spec.fleet.engine.max_num_seqs = 1;  // where answers share an engine, their number counts more
    spec.predictor.kind = PredictorSpec::Kind::kOracleLaw;
    return mean_wait_s(testing::run_given(spec, mixed(4'000, 0.2)));
  };
  const double turns = wait(Choice::kRoundRobin);
  const double outstanding = wait(Choice::kLeastOutstanding);
  const double work = wait(Choice::kLeastPredictedWork);
  EXPECT_LT(outstanding, 0.8 * turns);
  EXPECT_LT(work, 0.8 * outstanding);
}

TEST(Routing, DispatcherWaitsInOneLineSoNobodyWaitsBehindTheWrongEngine) {
  RunSpec spec = fleet_of(4, Choice::kRoundRobin);
  const double turns = mean_wait_s(testing::run_given(spec, mixed(2'000, 0.031)));
  spec.front.queue = true;
  spec.front.dispatch.policy = "fcfs";
  EXPECT_LT(mean_wait_s(testing::run_given(spec, mixed(2'000, 0.031))), turns);
}

TEST(Routing, PrefixAffinityFindsMoreInTheCacheThanTakingTurns) {
  const auto hit_share = [](Choice choice) {
    RunSpec spec = fleet_of(4, choice);
    spec.fleet.engine.prefix_caching = true;
    std::vector<Request> requests = mixed(2'000, 0.05);
    for (Request& r : requests) {
      r.session = 1 + (r.id * 7) % 97;
      r.prefix.tokens_per_id = 32;
      for (std::uint64_t i = 0; i < 3; ++i) r.prefix.ids.push_back(r.session * 10 + i);
    }
    const RunTotals totals = testing::run_given(spec, std::move(requests)).totals;
    return static_cast<double>(totals.prefix_hit) / static_cast<double>(totals.prefix_asked);
  };
  const double affinity = hit_share(Choice::kPrefixAffinity);
  EXPECT_GT(affinity, hit_share(Choice::kRoundRobin) + 0.05);
  EXPECT_GT(affinity, 0.8);
}

// kubernetes-sigs/gateway-api-inference-extension#1497: an engine whose metrics hang looks idle for
// ever and attracts all traffic.
TEST(Routing, EngineWhoseReportsHangAttractsAllUnlessTheRouterCountsWhatItSent) {
  RunSpec spec = fleet_of(4, Choice::kLeastReported);
  spec.front.staleness = from_seconds(0.05);
  spec.front.frozen_engine = 0;
  spec.front.corrected_reports = false;
  const std::vector<Request> requests = mixed(2'000, 0.02);
  EXPECT_GT(shares(testing::run_given(spec, requests), 4)[0], 0.99);
  spec.front.corrected_reports = true;
  EXPECT_LT(shares(testing::run_given(spec, requests), 4)[0], 0.4);
}

TEST(Routing, TheOlderTheReportsTheLongerTheWaitUnlessTheRouterCountsWhatItSent) {
  const auto wait = [](double staleness_s, bool corrected) {
    RunSpec spec = fleet_of(4, Choice::kLeastReported);
    spec.front.staleness = from_seconds(staleness_s);
    spec.front.corrected_reports = corrected;
    return mean_wait_s(testing::run_given(spec, mixed(4'000, 0.031)));
  };
  const double fresh = wait(0, false);
  EXPECT_GT(wait(0.5, false), 1.5 * fresh);
  EXPECT_GT(wait(5, false), 1.5 * wait(0.5, false));
  // What was sent and has not ended is a floor under every report.
  EXPECT_LT(wait(0.5, true), wait(0.5, false));
}

TEST(Routing, StalenessWithoutAnythingStaleIsAnError) {
  RunSpec spec = fleet_of(2, Choice::kRoundRobin);
  spec.workload.arrivals.count = 1;
  spec.front.staleness = from_seconds(1);
  const auto totals = run(spec, [](const RequestRecord&) {});
  ASSERT_FALSE(totals);
  EXPECT_EQ(totals.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(totals.error().message, HasSubstr("staleness"));
}

TEST(Routing, LeastPredictedWorkCountsTheCapUntilThePredictionComes) {
  RunSpec spec = fleet_of(2, Choice::kLeastPredictedWork);
  spec.predictor.kind = PredictorSpec::Kind::kTrueLength;
  spec.predictor.delay = from_seconds(0.5);
  std::vector<Request> requests;
  requests.push_back(testing::request(0, 0.0, 10, 500));
  requests.push_back(testing::request(1, 0.1, 10, 500));
  requests.push_back(testing::request(2, 0.2, 10, 1'500));
  requests[1].cap = Tokens(600);
  requests[2].cap = Tokens(1'500);
  // At 0.2 s engine 0 counts for 2,048 tokens and engine 1 for 600; at 0.8 s all laws are there.
  requests.push_back(testing::request(3, 0.8, 10, 10));
  auto ran = testing::run_given(spec, requests);
  std::sort(ran.records.begin(), ran.records.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  std::vector<int> engines;
  for (const RequestRecord& r : ran.records) engines.push_back(r.engine);
  EXPECT_THAT(engines, ElementsAre(0, 1, 1, 0));
}

}  // namespace
}  // namespace tailrace::simulate
