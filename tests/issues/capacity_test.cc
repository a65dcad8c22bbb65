// Public reports about autoscalers: replicas that nobody asked for, that nobody took away, that
// came and went. Names carry the repository and the number. What needs a cluster (two controllers
// on one metric, a lease) is not here.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "capacity/support/models.h"
#include "tailrace/capacity/enforcer.h"
#include "tailrace/capacity/stabilisation.h"

namespace tailrace::capacity {
namespace {

using namespace testing;

constexpr double kPerReplica = 10;
constexpr double kCycleSeconds = 30;

/// One variant under a load, with pods that take a while to come. No record of its own: each cycle
/// begins with what is there.
struct Cluster {
  std::int64_t current = 1;
  std::vector<double> ready_at_s;
  double now_s = 0, startup_s = 300, backlog = 0;
  Stabiliser stabiliser{StabilisationConfig{}};
  std::vector<std::int64_t> desired;

  std::int64_t pending() const { return std::int64_t(ready_at_s.size()); }

  Decision cycle(double arrivals_per_s, double drain_s = 60) {
    now_s += kCycleSeconds;
    for (const double at : ready_at_s) current += at <= now_s ? 1 : 0;
    std::erase_if(ready_at_s, [this](double at) { return at <= now_s; });
    backlog =
        std::max(0.0, backlog + (arrivals_per_s - double(current) * kPerReplica) * kCycleSeconds);
    auto m = model("m", arrivals_per_s + backlog / drain_s,
                   {variant("v", 10, kPerReplica, current, pending())});
    m.backlog_per_s = backlog / drain_s;
    auto decisions = optimize({}, {&m, 1}, std::nullopt);
    stabiliser.apply(now_s, decisions);
    enforce(m, {}, decisions);
    scale(decisions[0].desired);
    return decisions[0];
  }

  void scale(std::int64_t to) {
    desired.push_back(to);
    while (current + pending() < to) ready_at_s.push_back(now_s + startup_s);
    while (current + pending() > to && !ready_at_s.empty()) ready_at_s.pop_back();
    current = std::min(current, to);
  }
};

// The same deficit was requested in each cycle while pods were pending: 2, 4, 8, 16.
TEST(Aibrix2670, ADeficitIsRequestedOnceWhilePodsAreOnTheirWay) {
  Cluster cluster;
  for (int i = 0; i < 9; ++i) cluster.cycle(40);
  EXPECT_EQ(*std::max_element(cluster.desired.begin(), cluster.desired.end()),
            cluster.desired.front());
}

// Replicas were edited by hand; the planner believed its own record and never corrected.
TEST(Dynamo4420, ReplicasChangedByHandAreWhatTheNextCycleBeginsWith) {
  Cluster cluster;
  cluster.current = 4;
  for (int i = 0; i < 20; ++i) cluster.cycle(35);
  ASSERT_EQ(cluster.current, 4);
  cluster.current = 2;
  EXPECT_EQ(cluster.cycle(35).action, Action::kScaleUp);
  EXPECT_GE(cluster.current + cluster.pending(), 4);
}

TEST(Dynamo4420, ADecisionOverOtherReplicasThanThoseThatAreThereIsVoid) {
  const auto m = model("m", 35, {variant("v", 10, kPerReplica, 2)});
  auto decisions = optimize({}, {&m, 1}, std::nullopt);
  const Writer writer{"one", 1};
  sign(decisions, writer);
  ASSERT_EQ(decisions[0].desired, 4);
  const Decision late = reconcile(decisions[0], writer, 9, 0);
  EXPECT_EQ(late.desired, 9);
  EXPECT_EQ(late.action, Action::kHold);
  EXPECT_EQ(late.reason, "decided over 2 replicas, but 9 are there now: void");
}

// A forecast a hundred times too large made the scaler jump.
TEST(Dynamo14296, AnOutlierMovesReplicasByOneStepAndSaysSo) {
  Cluster cluster;
  cluster.current = 4;
  cluster.cycle(40);
  const Decision outlier = cluster.cycle(4000);
  EXPECT_EQ(outlier.desired, 8);
  EXPECT_EQ(outlier.steps.back().rule, "step cap");
  EXPECT_NE(outlier.reason.find("at most 4 more in 60 s"), std::string::npos) << outlier.reason;
}

// An empty query answer counted as 0: production was scaled to its minimum at peak.
TEST(Keda3065, NoMetricsHoldTheReplicas) {
  auto m = model("m", 0, {without_capacity("v", 10, 8, Evidence::kUnknown)});
  m.failure = "no usable metrics";
  Stabiliser stabiliser{StabilisationConfig{}};
  for (double now_s = 0; now_s < 3600; now_s += kCycleSeconds) {
    auto decisions = optimize({}, {&m, 1}, std::nullopt);
    stabiliser.apply(now_s, decisions);
    enforce(m, {.enabled = true}, decisions);
    ASSERT_EQ(decisions[0].desired, 8) << "at " << now_s << " s";
  }
}

// A minimum above the maximum made two writers flip the replicas for ever.
TEST(Keda5288, AMinimumAboveTheMaximumIsRefused) {
  Variant v;
  v.name = "v";
  v.min = 5;
  v.max = 3;
  EXPECT_FALSE(check_bounds(v));
}

TEST(Keda5288, OfTwoWritersOnlyTheHolderOfTheTermIsObeyed) {
  const auto m = model("m", 35, {variant("v", 10, kPerReplica, 2)});
  auto decisions = optimize({}, {&m, 1}, std::nullopt);
  sign(decisions, {"other", 3});
  EXPECT_EQ(reconcile(decisions[0], {"holder", 4}, 2, 0).desired, 2);
}

// A constant 0 never brought the replicas to 0.
TEST(Keda770, ZeroRequestsOverTheRetentionMeanZeroReplicas) {
  auto m = model("m", 0, {without_capacity("v", 10, 3, Evidence::kIdle)});
  m.failure = "no pod has traffic";
  auto decisions = optimize({}, {&m, 1}, std::nullopt);
  enforce(m, {.enabled = true, .retention_s = 600, .requests = 0}, decisions);
  EXPECT_EQ(decisions[0].desired, 0);
}

// The mean queue per replica fell when replicas appeared; they were taken away at once, with their
// requests.
TEST(Ray18925, AStepOfLoadIsAnsweredWithoutGoingBack) {
  Cluster cluster;
  cluster.startup_s = 90;
  for (int i = 0; i < 40; ++i) cluster.cycle(75);
  const auto highest = std::max_element(cluster.desired.begin(), cluster.desired.end());
  EXPECT_TRUE(std::is_sorted(cluster.desired.begin(), highest + 1));
  EXPECT_GE(cluster.current, 8) << "75 requests/s at 10 each";
  EXPECT_GE(cluster.desired.back(), 8);
}

// Surge pods of a rolling update counted as load: 120 pods without any.
TEST(Kubernetes72775, AnUpdateAtConstantLoadMovesNothing) {
  Cluster cluster;
  cluster.current = 4;
  for (int i = 0; i < 10; ++i) cluster.cycle(35);
  // Old pods go one by one and new ones load; the replicas asked for are the same.
  for (int i = 0; i < 4; ++i) {
    --cluster.current;
    cluster.ready_at_s.push_back(cluster.now_s + 60);
    EXPECT_EQ(cluster.cycle(35).desired, 4);
  }
}

// The stabilisation window was read as a pause after the last change.
TEST(Kubernetes101371, AChangeOfReplicasStartsNoPause) {
  Stabiliser stabiliser{StabilisationConfig{}};
  Decision d;
  const auto at = [&](double now_s, std::int64_t observed, std::int64_t wanted) {
    d = testing::decision("v", observed, wanted);
    stabiliser.apply(now_s, {&d, 1});
    return d.desired;
  };
  for (double now_s = 0; now_s <= 270; now_s += 30) EXPECT_EQ(at(now_s, 4, 4), 4);
  EXPECT_EQ(at(300, 9, 4), 4) << "raised to 9 by hand 30 s ago, but never recommended";
}

// The time of the last scaling was overwritten by an update of the status.
TEST(Kubernetes16275, OnlyReplicasThatChangedCountAsAChange) {
  StabilisationConfig config;
  config.up = {.pods = 1, .percent = std::nullopt, .period_s = 60};
  Stabiliser stabiliser(config);
  for (double now_s = 0; now_s < 600; now_s += 15) {
    Decision d = testing::decision("v", 2, 5);
    stabiliser.apply(now_s, {&d, 1});
    ASSERT_EQ(d.desired, 3) << "decided again and again, but nobody has moved";
  }
}

// A restarted scaler did not begin with the replicas that were there.
TEST(Aibrix515, ARestartInASteadyStateChangesNothing) {
  Cluster cluster;
  cluster.current = 4;
  for (int i = 0; i < 20; ++i) cluster.cycle(35);
  cluster.stabiliser = Stabiliser{StabilisationConfig{}};
  for (int i = 0; i < 20; ++i) EXPECT_EQ(cluster.cycle(35).desired, 4);
}

}  // namespace
}  // namespace tailrace::capacity
