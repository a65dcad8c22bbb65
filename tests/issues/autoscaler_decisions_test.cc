// Public reports about what an autoscaler decides: targets that were not read, variants that grew
// twice, quotas, roles, priorities, reasons that were not given. Names carry the repository and the
// number.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "capacity/support/models.h"
#include "capacity/support/reports.h"
#include "tailrace/capacity/cycle.h"
#include "tailrace/capacity/explain.h"
#include "tailrace/capacity/rescale.h"
#include "tailrace/simulate/latency_oracle.h"
#include "tailrace/simulate/replica_run.h"

namespace tailrace::capacity {
namespace {

using namespace testing;
using ::testing::HasSubstr;
using ::testing::Not;

const ModelKey kLlama{"prod", "llama"};
constexpr double kCycleSeconds = 60;

/// What a pod without a line reports at this rate.
tune::Observation report(const std::string& pod, double time_s, double rate, double prefix_hit = 0,
                         const queueing::ServiceModel& truth = true_model()) {
  auto o = testing::report(pod, time_s, rate, truth, kCycleSeconds, prefix_hit);
  o.waiting = 0;
  return o;
}

CycleConfig config_of(const std::string& entry) {
  const std::vector<ConfigEntry> entries = {{"default", entry, 0}};
  CycleConfig config;
  config.models = Config::of_entries(entries, "test");
  EXPECT_TRUE(config.models.problems().empty());
  return config;
}

/// One model of one variant, cycle by cycle; nothing is obeyed unless a test does so.
struct Loop {
  explicit Loop(CycleConfig c,
                const std::optional<StabilisationConfig>& stabilisation = std::nullopt)
      : config(std::move(c)), state(stabilisation) {}

  /// Pods share `rate`, which swings so that they teach; `silent` of them report nothing.
  const Decision& cycle(double rate, std::int64_t replicas, int silent = 0) {
    Variant v;
    v.name = "h100";
    v.accelerator = "H100";
    v.current = replicas;
    v.min = least;
    for (std::int64_t p = 0; p + silent < replicas; ++p) {
      const double swing = 1 + 0.3 * std::sin(0.9 * double(cycles) + double(p));
      v.pods.push_back(
          report(fmt::format("p{}", p), time_s, rate * swing / double(replicas), prefix_hit));
      v.pods.back().waiting = stuck;
      if (prefix_hit > 0) v.pods.back().prefix_hit = prefix_hit;
    }
    CycleInput input;
    input.models.push_back({kLlama, 1, gateway, {std::move(v)}});
    result = run_cycle(time_s, input, config, state);
    time_s += kCycleSeconds;
    ++cycles;
    return result.decisions.at(0);
  }
  const Decision& cycles_of(int count, double rate, std::int64_t replicas) {
    for (int i = 0; i < count; ++i) cycle(rate, replicas);
    return result.decisions.at(0);
  }
  double capacity() const { return result.models.at(0).variants.at(0).per_replica_per_s; }

  CycleConfig config;
  CycleState state;
  CycleResult result;
  std::optional<Backlog> gateway = Backlog{0};
  double time_s = 0, stuck = 0, prefix_hit = 0;
  std::int64_t least = 0;
  int cycles = 0;
};

// The queueing analyzer was never held against a server. Rates 5 % below the computed one keep the
// targets on the emulated engine, 5 % above they do not; docs/capacity-accuracy.md has all rows.
TEST(LlmdAutoscaling1342, TheComputedRateIsTheOneThatTheEngineKeeps) {
  queueing::ServiceModel model;
  model.iteration = {.alpha_ms = 6, .beta_ms = 0.02, .gamma_ms = 7.6e-5};
  const auto shape = queueing::Workload::of(0, 512, 128);
  const auto sized = queueing::size(model, shape, {.ttft_ms = 100, .itl_ms = 25});
  ASSERT_TRUE(sized && sized->reachable);
  simulate::ReplicaSpec spec;
  spec.engine = *simulate::engine_of(model);
  spec.lengths = {.prompts = {512}, .outputs = {128}};
  spec.requests_max = 100'000;
  spec.begin_with = static_cast<std::int64_t>(sized->achieved.concurrency.value());
  const auto kept = [&](double share) {
    spec.rate_per_s = share * sized->rate_per_s;
    const auto run = simulate::run_replica(spec);
    return run && run->ttft_ms <= 100 && run->itl_ms <= 25;
  };
  EXPECT_TRUE(kept(0.95));
  EXPECT_FALSE(kept(1.05));
}

// Saturation of memory and queues says nothing of latencies that users were promised.
TEST(LlmdAutoscaling741, ATighterTargetTakesMoreReplicasOfTheSameLoad) {
  Loop loose(config_of("targetTTFT: 400\ntargetITL: 30"));
  Loop tight(config_of("targetTTFT: 400\ntargetITL: 9"));
  const auto few = loose.cycles_of(10, 60, 3).desired;
  const auto many = tight.cycles_of(10, 60, 3).desired;
  EXPECT_LE(few, 3);
  EXPECT_GT(many, 3) << "neither memory nor the queue is full";
}

// Scaling by the time to the first token was wanted.
TEST(Aibrix1022, ATighterTargetOfTheFirstTokenAloneTakesMoreReplicas) {
  Loop loose(config_of("targetTTFT: 400\ntargetITL: 30"));
  Loop tight(config_of("targetTTFT: 28\ntargetITL: 30"));
  EXPECT_GT(tight.cycles_of(10, 60, 3).desired, loose.cycles_of(10, 60, 3).desired);
}

// What is in the prefix cache need not be computed.
TEST(LlmdAutoscaling98, WherePrefixesAreCachedAReplicaTakesMore) {
  Loop cold(config_of("targetTTFT: 150\ntargetITL: 15")), warm = Loop(cold.config);
  warm.prefix_hit = 0.8;
  cold.cycles_of(12, 60, 3);
  warm.cycles_of(12, 60, 3);
  EXPECT_GT(warm.capacity(), 1.1 * cold.capacity());
}

// Demand was what was completed: under back-pressure that is what there is room for.
TEST(Dynamo8956, ArrivalsAndNotCompletionsAreDemand) {
  Loop loop(config_of("targetTTFT: 150\ntargetITL: 15"));
  loop.cycles_of(10, 60, 2);
  const double capacity = loop.capacity();
  const auto full = loop.cycles_of(4, 1.6 * capacity, 2).desired;
  loop.gateway = Backlog{0};
  loop.gateway->arrivals_per_s = 4.5 * capacity;
  loop.gateway->arrivals_window_s = kCycleSeconds;
  EXPECT_GT(loop.cycles_of(3, 1.6 * capacity, 2).desired, full);
  EXPECT_GE(loop.result.decisions[0].desired, 5);
}

// Targets in `default` were ignored: supply 0, demand 0.
TEST(LlmdAutoscaling970, TargetsOfTheDefaultEntryHoldForEveryModel) {
  Loop loop(config_of("targetTTFT: 150\ntargetITL: 15"));
  loop.cycles_of(8, 40, 2);
  const ModelAnalysis& m = loop.result.models[0];
  EXPECT_EQ(m.slo.source, SloSource::kExplicit);
  EXPECT_EQ(m.slo.targets.ttft_ms, 150);
  EXPECT_EQ(m.slo.targets.itl_ms, 15);
  EXPECT_GT(m.supply_per_s, 0);
  EXPECT_GT(m.demand_per_s, 0);
}

// Replicas grew in every cycle without load.
TEST(LlmdAutoscaling380, ALoadThatFitsNeverAddsAReplica) {
  Loop loop(config_of("targetTTFT: 150\ntargetITL: 15"), StabilisationConfig{});
  for (int i = 0; i < 120; ++i) EXPECT_LE(loop.cycle(30, 3).desired, 3) << "cycle " << i;
}

// Replicas on their way were counted as if they served, and a second variant grew for the same
// deficit while the first was still coming.
TEST(LlmdAutoscaling1454, NoSecondVariantGrowsForADeficitThatIsOnItsWay) {
  auto m = model("m", 40, {variant("cheap", 5, 10, 1), variant("dear", 20, 10, 1)});
  const auto first = optimized(m);
  EXPECT_EQ(first.at("cheap"), 3);
  EXPECT_EQ(first.at("dear"), 1);
  m = model("m", 40, {variant("cheap", 5, 10, 1, 2), variant("dear", 20, 10, 1)});
  EXPECT_EQ(optimized(m), first);
}

TEST(LlmdAutoscaling413, ReplicasOnTheirWayCountOnce) {
  for (std::int64_t pending = 0; pending <= 3; ++pending) {
    const auto m = model("m", 40, {variant("v", 5, 10, 4 - pending, pending)});
    EXPECT_EQ(optimized(m).at("v"), 4) << pending << " on their way";
  }
}

// Connections that had died stayed in the queue of an engine for ever, and nothing shrank.
TEST(LlmdAutoscaling769, AQueueThatNeverMovesDoesNotKeepReplicasForEver) {
  Loop loop(config_of("targetTTFT: 150\ntargetITL: 15"));
  loop.stuck = 3;  // in each of the pods
  EXPECT_LT(loop.cycles_of(12, 30, 6).desired, 6);
}

// The name of a model differed between metrics and configuration: every part was healthy, and
// nothing scaled. What reports nothing of a model is no measurement of zero.
TEST(Llmd2310, AModelOfWhichNothingIsMeasuredIsHeldWithAReason) {
  Loop loop(config_of("targetTTFT: 150\ntargetITL: 15"));
  const Decision& d = loop.cycle(40, 4, 4);
  EXPECT_EQ(d.desired, 4);
  EXPECT_FALSE(d.informed);
  EXPECT_FALSE(d.reason.empty());
  EXPECT_TRUE(loop.result.any_failed());
}

// "0 models processed", and no reason.
TEST(LlmdAutoscaling1422, NoModelIsHeldWithoutAReason) {
  const std::vector<ConfigEntry> none = {}, wrong = {{"default", "sloMultiplier: 1", 0}};
  for (const auto& entries : {none, wrong}) {
    CycleConfig config;
    config.models = Config::of_entries(entries, "test");
    Loop loop(config);
    const Decision& d = loop.cycle(40, 2);
    EXPECT_EQ(d.desired, 2);
    EXPECT_THAT(d.reason, HasSubstr("default"));
  }
}

// Why was this decision taken?
TEST(LlmdAutoscaling1114, ADecisionTellsTargetsCapacityAndWhatItWaitsFor) {
  Loop loop(config_of("targetTTFT: 150\ntargetITL: 15"));
  loop.cycles_of(8, 90, 2);
  const std::string why = explain(loop.result.models[0], loop.result.decisions);
  for (const char* part : {"150", "15", "requests/s", "h100"}) {
    EXPECT_THAT(why, HasSubstr(part));
  }
  EXPECT_FALSE(loop.result.decisions[0].steps.empty());
}

// Half of the pods reported: arrivals looked halved, replicas went 5, 3, 5.
TEST(LlmInfernoControlLoop59, HalfOfTheReportsAreNotHalfOfTheLoad) {
  Loop loop(config_of("targetTTFT: 150\ntargetITL: 15"));
  const double capacity = (loop.cycles_of(10, 60, 5), loop.capacity());
  for (int i = 0; i < 10; ++i) loop.cycle(4.0 * capacity, 5);
  for (int i = 0; i < 10; ++i) {
    EXPECT_GE(loop.cycle(4.0 * capacity, 5, i % 2 == 0 ? 3 : 0).desired, 5) << "cycle " << i;
  }
}

// Samples of a saturated server poisoned what had been learnt.
TEST(LlmInfernoControlLoop24, ASaturatedServerTeachesNothing) {
  Loop loop(config_of("targetTTFT: 150\ntargetITL: 15"));
  loop.cycles_of(12, 60, 3);
  const double before = loop.capacity();
  for (int i = 0; i < 5; ++i) {
    Variant v;
    v.name = "h100";
    v.accelerator = "H100";
    v.current = 3;
    for (int p = 0; p < 3; ++p) {
      auto o = report(fmt::format("p{}", p), loop.time_s, 40);
      o.rate_per_s = 400;
      o.ttft_ms = 30'000;
      o.itl_ms = 60;
      o.running = 256;
      o.waiting = 5'000;
      v.pods.push_back(o);
    }
    CycleInput input;
    input.models.push_back({kLlama, 1, std::nullopt, {std::move(v)}});
    loop.result = run_cycle(loop.time_s, input, loop.config, loop.state);
    loop.time_s += kCycleSeconds;
  }
  EXPECT_NEAR(loop.capacity() / before, 1, 0.02);
  EXPECT_GT(loop.result.decisions[0].desired, 3);
}

// Three parameters were fitted to two numbers of one load, as if they could be.
TEST(LlmInfernoModelTuner17, ALoadThatNeverChangesIsNotCalledIdentified) {
  CycleState state(std::nullopt);
  const auto config = config_of("targetTTFT: 150\ntargetITL: 15");
  CycleResult result;
  for (int c = 0; c < 30; ++c) {
    Variant v;
    v.name = "h100";
    v.current = 1;
    v.pods.push_back(report("p", kCycleSeconds * c, 20));
    v.pods.back().waiting = 0;
    CycleInput input;
    input.models.push_back({kLlama, 1, std::nullopt, {v}});
    result = run_cycle(kCycleSeconds * c, input, config, state);
  }
  const auto& p = result.models[0].variants[0].parameters;
  EXPECT_FALSE(p.identified);
  ASSERT_TRUE(p.rate_low_per_s && p.rate_high_per_s);
  const auto sized = queueing::size(true_model(), queueing::Workload::of(0, 512, 128),
                                    {.ttft_ms = 150, .itl_ms = 15});
  EXPECT_LE(*p.rate_low_per_s, sized->rate_per_s);
  EXPECT_GE(*p.rate_high_per_s, sized->rate_per_s);
}

// A target of zero made capacity infinite; required and spare were both above zero.
TEST(InferenceSim1200, NoTargetIsNoPromiseAndNeedIsOneSided) {
  Loop loop(config_of("targetTTFT: 1e9\ntargetITL: 1e9"));
  for (const double rate : {10.0, 100.0, 1000.0}) {
    loop.cycles_of(6, rate, 3);
    const ModelAnalysis& m = loop.result.models[0];
    EXPECT_TRUE(std::isfinite(m.supply_per_s));
    EXPECT_FALSE(m.required_per_s > 0 && m.spare_per_s > 0);
  }
  EXPECT_FALSE(Config::of_entries(
                   std::vector<ConfigEntry>{{"default", "targetTTFT: 0\ntargetITL: 0", 0}}, "test")
                   .settings_of(kLlama)
                   .value_or(ModelSettings{})
                   .explicit_slo());
}

// A busy replica could not push its metrics, and the next one came a task too late. What waits at
// the gateway is demand, whatever the pods say.
TEST(Ray18923, ABacklogAddsReplicasWhileAPodIsTooBusyToReport) {
  Loop loop(config_of("targetTTFT: 150\ntargetITL: 15"));
  loop.cycles_of(10, 60, 2);
  loop.gateway = Backlog{20'000};
  EXPECT_GT(loop.cycle(60, 2, 1).desired, 2);
}

// The metric of the queue does not exist at zero replicas: the first request was never seen. The
// gateway's queue is there without any replica.
TEST(Llmd2492, ARequestThatWaitsWakesAModelWithinOneCycle) {
  Loop loop(config_of("scaleToZero: true"));
  loop.cycle(0, 0);
  EXPECT_EQ(loop.result.decisions[0].desired, 0);
  loop.gateway = Backlog{1};
  EXPECT_EQ(loop.cycle(0, 0).desired, 1);
}

// The replicas to fall back to when metrics fail did not lift a workload from zero.
TEST(Keda7239, WithoutMetricsAMinimumIsReachedFromZero) {
  Loop loop(config_of("targetTTFT: 150\ntargetITL: 15"));
  loop.gateway = std::nullopt;
  loop.least = 2;
  EXPECT_EQ(loop.cycle(0, 0).desired, 2);
}

TEST(Keda7411, WithoutMetricsNothingThatRunsIsTakenAway) {
  Loop loop(config_of("scaleToZero: true"));
  loop.gateway = std::nullopt;
  for (int i = 0; i < 60; ++i) EXPECT_EQ(loop.cycle(10, 3, 3).desired, 3);
}

// A minimum of 0 was ignored.
TEST(LlmdAutoscaling1338, AMinimumOfZeroIsAMinimum) {
  auto idle = model("m", 0, {without_capacity("v", 10, 2, Evidence::kIdle)});
  const auto desired = [&](bool enabled) {
    auto decisions = optimize({}, {&idle, 1}, std::nullopt);
    enforce(idle, {.enabled = enabled, .requests = 0}, decisions);
    return decisions[0].desired;
  };
  EXPECT_EQ(desired(true), 0);
  idle.variants[0].min = 1;
  EXPECT_EQ(desired(true), 1);
}

// A trickle of requests took replicas up and down between 0 and 1.
TEST(KubeAi67, ATrickleOfRequestsDoesNotFlap) {
  auto m = model("m", 0.02, {variant("v", 10, 10, 1)});
  for (int i = 0; i < 50; ++i) {
    auto decisions = optimize({}, {&m, 1}, std::nullopt);
    enforce(m, {.enabled = true, .retention_s = 600, .requests = i % 5 == 0 ? 2.0 : 1.0},
            decisions);
    ASSERT_EQ(decisions[0].desired, 1);
  }
}

// Delays shorter than the look-back made replicas follow every wave.
TEST(Ray26455, WavesShorterThanTheWindowMoveNothingDown) {
  Stabiliser stabiliser{StabilisationConfig{}};
  std::int64_t replicas = 4;
  int falls = 0;
  for (int i = 0; i < 120; ++i) {
    const auto m = model("m", i % 8 < 4 ? 35 : 12, {variant("v", 10, 10, replicas)});
    auto decisions = optimize({}, {&m, 1}, std::nullopt);
    stabiliser.apply(30.0 * i, decisions);
    if (decisions[0].desired < replicas) ++falls;
    replicas = decisions[0].desired;
  }
  EXPECT_EQ(falls, 0);
}

// Results hung on the stabilisation window of the HPA behind, which everybody had to find. The
// smoothing is done before: behind it any window gives the same replicas.
TEST(LlmdAutoscaling777, WavesGiveTheSameReplicasBehindAnyWindowOfAnHpa) {
  const auto replicas_behind = [](double window_s) {
    Stabiliser stabiliser{StabilisationConfig{}};
    std::vector<std::pair<double, std::int64_t>> asked;
    std::vector<std::int64_t> replicas = {4};
    for (int i = 0; i < 120; ++i) {
      const double now_s = 30.0 * i;
      const auto m = model("m", i % 8 < 4 ? 55 : 12, {variant("v", 10, 10, replicas.back())});
      auto decisions = optimize({}, {&m, 1}, std::nullopt);
      stabiliser.apply(now_s, decisions);
      asked.emplace_back(now_s, decisions[0].desired);
      std::int64_t most = 0;
      for (const auto& [at_s, desired] : asked) {
        if (at_s >= now_s - window_s) most = std::max(most, desired);
      }
      replicas.push_back(most);
    }
    return replicas;
  };
  const auto bare = replicas_behind(0);
  EXPECT_EQ(bare.back(), 6);
  for (const double window_s : {60.0, 180.0, 300.0}) EXPECT_EQ(replicas_behind(window_s), bare);
}

// Two instances of an autoscaler disagreed and set 1, 2, 1, 2.
TEST(KnativeServing12409, OnlyTheLeadersDecisionMovesAnything) {
  const auto m = model("m", 35, {variant("v", 10, 10, 2)});
  auto leader = optimize({}, {&m, 1}, std::nullopt), passive = leader;
  sign(leader, {"one", 7});
  sign(passive, {"two", 6});
  std::int64_t replicas = 2;
  for (int i = 0; i < 10; ++i) {
    const auto& decision = i % 2 == 0 ? passive[0] : leader[0];
    replicas = reconcile(decision, {"one", 7}, replicas, 0).desired;
    EXPECT_EQ(replicas, i == 0 ? 2 : 4) << "write " << i;
  }
}

// Two controllers owned one workload; each undid what the other did at zero.
TEST(TemporalWorkerController439, AWriteOfAFormerOwnerAtZeroIsVoid) {
  auto idle = model("m", 0, {without_capacity("v", 10, 1, Evidence::kIdle)});
  auto decisions = optimize({}, {&idle, 1}, std::nullopt);
  enforce(idle, {.enabled = true, .requests = 0}, decisions);
  sign(decisions, {"former", 1});
  ASSERT_EQ(decisions[0].desired, 0);
  const Decision late = reconcile(decisions[0], {"owner", 2}, 1, 0);
  EXPECT_EQ(late.desired, 1);
  EXPECT_EQ(late.action, Action::kHold);
}

// The preferred accelerator was full, and nothing grew on the other.
TEST(LlmdAutoscaling1331, WhatDoesNotFitOnThePreferredAcceleratorGoesToTheNext) {
  auto preferred = variant("preferred", 5, 10, 1), other = variant("other", 20, 10, 1);
  preferred.accelerator = "L4";
  other.accelerator = "H100";
  const auto m = model("m", 60, {preferred, other});
  const GpuLimits limits{.available = {{"L4", 1}, {"H100", -1}}};
  EXPECT_EQ(optimized(m, {.kind = OptimizerKind::kGreedyByScore}, limits),
            (Targets{{"other", 4}, {"preferred", 2}}));
}

// Accelerators had to be measured before, one by one. Here two are learnt from what they serve, and
// growth goes to the one that costs less for each request.
TEST(Llmd89, TwoAcceleratorsAreLearntWhileTheyServeAndTheCheaperOneGrows) {
  auto slow = true_model();
  slow.iteration = {.alpha_ms = 9, .beta_ms = 0.044, .gamma_ms = 9.9e-5};
  for (const double cost_of_slow : {2.0, 20.0}) {
    CycleState state(std::nullopt);
    const auto config = config_of("targetTTFT: 150\ntargetITL: 15");
    CycleResult result;
    for (int c = 0; c < 12; ++c) {
      const double time_s = kCycleSeconds * c;
      Variant fast, slower;
      fast.name = fast.accelerator = "H100";
      slower.name = slower.accelerator = "L40S";
      fast.cost = 10;
      slower.cost = cost_of_slow;
      fast.current = slower.current = 2;
      const double swing = 1 + 0.4 * std::sin(0.9 * c);
      for (int p = 0; p < 2; ++p) {
        fast.pods.push_back(report(fmt::format("f{}", p), time_s, 30 * swing * (1 + 0.1 * p)));
        slower.pods.push_back(
            report(fmt::format("s{}", p), time_s, 12 * swing * (1 + 0.1 * p), 0, slow));
      }
      CycleInput input;
      Backlog gateway{0};
      if (c == 11) gateway.arrivals_per_s = 400;
      input.models.push_back({kLlama, 1, gateway, {std::move(fast), std::move(slower)}});
      result = run_cycle(time_s, input, config, state);
    }
    const auto& variants = result.models[0].variants;
    ASSERT_EQ(variants[0].evidence, Evidence::kSized);
    ASSERT_EQ(variants[1].evidence, Evidence::kSized);
    EXPECT_GT(variants[0].per_replica_per_s, 1.3 * variants[1].per_replica_per_s);
    const auto grown = targets(result.decisions);
    EXPECT_GT(grown.at(cost_of_slow < 10 ? "L40S" : "H100"), 2) << cost_of_slow;
    EXPECT_EQ(grown.at(cost_of_slow < 10 ? "H100" : "L40S"), 2) << cost_of_slow;
  }
}

// One of two models that are alike took all that was free.
TEST(LlmdAutoscaling1447, OfEqualNeedsOfEqualPriorityNoneIsLeftWithNothing) {
  const std::vector<ModelAnalysis> both = {model("a", 80, {variant("v", 5, 10, 1)}),
                                           model("b", 80, {variant("v", 5, 10, 1)})};
  const auto d = optimize({.kind = OptimizerKind::kGreedyByScore}, both,
                          GpuLimits{.available = {{"A100", 6}}});
  EXPECT_EQ(d[0].desired + d[1].desired, 8);
  EXPECT_GE(d[0].desired, 3);
  EXPECT_GE(d[1].desired, 3);
}

// GPUs were given out beyond the quota of a namespace.
TEST(LlmdAutoscaling1000, GrowthStopsAtTheQuotaOfTheNamespace) {
  const auto m = model("m", 90, {variant("v", 5, 10, 2)});
  const GpuLimits limits{.available = {{"A100", -1}}, .quota = {{"ns", {{"A100", 3}}}}};
  auto decisions = optimize({}, {&m, 1}, std::nullopt);
  limit_growth({&m, 1}, limits, decisions);
  EXPECT_EQ(decisions[0].desired, 5);
  EXPECT_FALSE(decisions[0].reason.empty());
}

// Priority stopped to matter once the pool was full.
TEST(LlmdAutoscaling771, AFullPoolIsSharedByPriority) {
  auto low = model("low", 80, {variant("v", 5, 10, 8)});
  auto high = model("high", 80, {variant("v", 5, 10, 0)});
  low.priority = 1;
  high.priority = 3;
  const OptimizerConfig config{.kind = OptimizerKind::kGreedyByScore, .rescale = true};
  const auto desired = [&](std::int64_t free) {
    const std::vector<ModelAnalysis> both = {low, high};
    const auto d = optimize(config, both, GpuLimits{.available = {{"A100", free}}});
    return std::pair(d[0].desired, d[1].desired);
  };
  EXPECT_EQ(desired(0), std::pair(std::int64_t{2}, std::int64_t{0})) << "none is free yet";
  low = model("low", 80, {variant("v", 5, 10, 2)});
  EXPECT_EQ(desired(6), std::pair(std::int64_t{2}, std::int64_t{6}));
}

// Prefill never grew; requests that waited for one role were charged to the other.
TEST(LlmdAutoscaling1213, PrefillGrowsByItsOwnNeed) {
  auto prefill = variant("prefill", 5, 10, 1), decode = variant("decode", 5, 10, 3);
  prefill.role = Role::kPrefill;
  decode.role = Role::kDecode;
  auto m = model("m", 25, {prefill, decode});
  m.required_per_s = m.spare_per_s = 0;
  m.roles[Role::kPrefill] = {.demand_per_s = 25, .required_per_s = 15};
  m.roles[Role::kDecode] = {.demand_per_s = 25, .spare_per_s = 5};
  const auto targets = optimized(m);
  EXPECT_GT(targets.at("prefill"), 1);
  EXPECT_EQ(targets.at("decode"), 3);
}

// Prefill should scale by the first token and decode by the tokens after it.
TEST(Dstack3293, TheFirstTokenSizesPrefillAndTheOthersSizeDecode) {
  const auto replicas = [](const std::string& entry) {
    const auto config = config_of(entry);
    CycleState state(std::nullopt);
    CycleResult result;
    for (int c = 0; c < 10; ++c) {
      CycleInput input;
      std::vector<Variant> both(2);
      both[0].name = "prefill";
      both[0].role = Role::kPrefill;
      both[1].name = "decode";
      both[1].role = Role::kDecode;
      for (Variant& v : both) {
        v.current = 2;
        for (int p = 0; p < 2; ++p) {
          v.pods.push_back(report(fmt::format("{}-{}", v.name, p), kCycleSeconds * c,
                                  30 * (1 + 0.3 * std::sin(0.9 * c + p))));
        }
      }
      input.models.push_back({kLlama, 1, std::nullopt, std::move(both)});
      result = run_cycle(kCycleSeconds * c, input, config, state);
    }
    return targets(result.decisions);
  };
  const auto loose = replicas("targetTTFT: 300\ntargetITL: 30");
  const auto first = replicas("targetTTFT: 32\ntargetITL: 30");
  const auto later = replicas("targetTTFT: 300\ntargetITL: 9");
  EXPECT_GT(first.at("prefill"), loose.at("prefill"));
  EXPECT_EQ(first.at("decode"), loose.at("decode"));
  EXPECT_GT(later.at("decode"), loose.at("decode"));
  EXPECT_EQ(later.at("prefill"), loose.at("prefill"));
}

TEST(LlmdAutoscaling1470, WhatWaitsForOneRoleIsItsDemandAlone) {
  Loop unused(config_of("targetTTFT: 150\ntargetITL: 15"));
  CycleState state(std::nullopt);
  CycleResult result;
  for (int c = 0; c < 10; ++c) {
    const double time_s = kCycleSeconds * c;
    Variant prefill, decode;
    prefill.name = "prefill";
    prefill.role = Role::kPrefill;
    decode.name = "decode";
    decode.role = Role::kDecode;
    prefill.current = decode.current = 2;
    for (Variant* v : {&prefill, &decode}) {
      for (int p = 0; p < 2; ++p) {
        v->pods.push_back(report(fmt::format("{}-{}", v->name, p), time_s, 20 + 5 * std::sin(c)));
        v->pods.back().waiting = 0;
      }
    }
    // Engines with a line teach nothing, so it comes once both roles are known.
    if (c == 9) {
      for (auto& pod : prefill.pods) pod.waiting = 300;
    }
    CycleInput input;
    input.models.push_back({kLlama, 1, std::nullopt, {prefill, decode}});
    result = run_cycle(time_s, input, unused.config, state);
  }
  const auto& roles = result.models[0].roles;
  ASSERT_EQ(roles.size(), 2U);
  EXPECT_GT(roles.at(Role::kPrefill).backlog_per_s, 0);
  EXPECT_EQ(roles.at(Role::kDecode).backlog_per_s, 0);
}

}  // namespace
}  // namespace tailrace::capacity
