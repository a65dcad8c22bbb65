// Whole cycles: what is learnt from one to the next, and what is decided.
#include "tailrace/capacity/cycle.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <limits>

#include "capacity/support/reports.h"
#include "tailrace/capacity/explain.h"

namespace tailrace::capacity {
namespace {

using ::testing::HasSubstr;
using testing::report;
using testing::true_model;

const ModelKey kLlama{"prod", "llama"};

Variant variant(const std::string& name, std::int64_t current) {
  Variant v;
  v.name = name;
  v.accelerator = "H100";
  v.current = current;
  return v;
}

CycleInput input_of(Variant v) {
  CycleInput input;
  input.models.push_back({kLlama, 1, std::nullopt, {std::move(v)}});
  return input;
}

CycleConfig with_targets(double ttft = 150, double itl = 15) {
  CycleConfig config;
  config.models.change_all([&](ModelSettings& s) {
    s.targets.ttft_ms = ttft;
    s.targets.itl_ms = itl;
  });
  return config;
}

/// One variant whose pods share `rate`, which rises and falls a little so that it can be learnt.
CycleResult run(CycleState& state, const CycleConfig& config, int cycles, double rate,
                std::int64_t replicas, double from_s = 0) {
  CycleResult result;
  for (int c = 0; c < cycles; ++c) {
    auto v = variant("h100", replicas);
    const double time_s = from_s + 60 * c;
    for (int p = 0; p < replicas; ++p) {
      const double swing = 1 + 0.4 * std::sin(0.9 * c + p);
      v.pods.push_back(report(fmt::format("p{}", p), time_s, rate * swing / double(replicas)));
    }
    result = run_cycle(time_s, input_of(std::move(v)), config, state);
  }
  return result;
}

double true_capacity(const CycleConfig& config) {
  const auto settings = *config.models.settings_of(kLlama);
  const auto nothing = queueing::Workload::of(0, 512, 128);
  return queueing::size(true_model(), nothing, settings.targets)->rate_per_s;
}

TEST(SpecSection6, MetricsGoThroughTunerSloAndSizingToADecision) {
  CycleState state(std::nullopt);
  const auto config = with_targets();
  const double capacity = true_capacity(config);
  const auto result = run(state, config, 10, 1.7 * capacity, 2);
  ASSERT_EQ(result.models.size(), 1U);
  ASSERT_EQ(result.decisions.size(), 1U);
  const auto& v = result.models[0].variants[0];
  ASSERT_FALSE(v.failure) << *v.failure;
  EXPECT_NEAR(v.per_replica_per_s / capacity, 1, 0.1);
  const double demand = v.demand_per_s;
  EXPECT_EQ(
      result.decisions[0].desired,
      2 + std::max(0.0, std::ceil((demand / 0.85 - 2 * v.per_replica_per_s) / v.per_replica_per_s -
                                  1e-9)));
  EXPECT_EQ(result.models[0].slo.source, SloSource::kExplicit);
  EXPECT_FALSE(explain(result.models[0], result.decisions).empty());
}

TEST(Cycle, GrowsWhereDemandOutgrowsSupplyAndShrinksWhereItLeaves) {
  const auto config = with_targets();
  const double capacity = true_capacity(config);
  CycleState busy(std::nullopt);
  EXPECT_GT(run(busy, config, 10, 1.7 * capacity, 2).decisions[0].desired, 2);
  CycleState quiet(std::nullopt);
  const auto down = run(quiet, config, 12, 0.8 * capacity, 5);
  EXPECT_LT(down.decisions[0].desired, 5);
  EXPECT_GE(down.decisions[0].desired, 1);
}

TEST(SpecSection1, WithoutADefaultEntryReplicasAreHeldAndTheReasonSaysSo) {
  CycleState state(std::nullopt);
  auto config = with_targets();
  config.models = *Config::parse("", "empty");
  const auto result = run(state, config, 2, 500, 2);
  EXPECT_FALSE(result.models[0].active);
  EXPECT_EQ(result.decisions[0].desired, 2);
  EXPECT_THAT(result.decisions[0].reason, HasSubstr("default"));
  EXPECT_TRUE(result.any_failed());
}

TEST(Cycle, AWrongEntryHoldsItsOwnModelOnly) {
  CycleConfig config;
  const std::vector<ConfigEntry> entries = {
      {"default", "targetTTFT: 150\ntargetITL: 15", 0},
      {"bad", "model_id: llama\nnamespace: prod\nsloMultiplier: 1", 0}};
  config.models = Config::of_entries(entries, "config");
  CycleState state(std::nullopt);
  CycleResult result;
  for (int c = 0; c < 8; ++c) {
    CycleInput input;
    for (const char* model : {"llama", "qwen"}) {
      auto v = variant("v", 1);
      v.pods.push_back(report("p", 60.0 * c, 50 + 10 * std::sin(c)));
      input.models.push_back({{"prod", model}, 1, std::nullopt, {v}});
    }
    result = run_cycle(60.0 * c, input, config, state);
  }
  EXPECT_TRUE(result.models[0].failure);
  EXPECT_EQ(result.decisions[0].desired, 1);
  EXPECT_THAT(result.decisions[0].reason, HasSubstr("sloMultiplier"));
  EXPECT_FALSE(result.models[1].failure);
  EXPECT_GT(result.decisions[1].desired, 1);
}

TEST(Cycle, ALostScrapeHoldsTheReplicas) {
  CycleState state(std::nullopt);
  const auto config = with_targets();
  run(state, config, 10, 20, 4);
  const auto result = run_cycle(660, input_of(variant("h100", 4)), config, state);
  EXPECT_EQ(result.decisions[0].desired, 4);
  EXPECT_EQ(result.decisions[0].action, Action::kHold);
  EXPECT_TRUE(result.models[0].failure);
}

TEST(Cycle, AnIdleModelKeepsTheCapacityThatItHadLearntAndShrinks) {
  CycleState state(std::nullopt);
  CycleConfig config;  // SLO inferred, so it has to be remembered
  run(state, config, 10, 40, 4);
  auto v = variant("h100", 4);
  for (int p = 0; p < 4; ++p) {
    tune::Observation idle;
    idle.time_s = 660;
    idle.pod = fmt::format("p{}", p);
    idle.rate_per_s = 0;
    v.pods.push_back(idle);
  }
  const auto result = run_cycle(660, input_of(std::move(v)), config, state);
  EXPECT_EQ(result.models[0].variants[0].evidence, Evidence::kSized);
  EXPECT_EQ(result.decisions[0].desired, 1);
}

TEST(Cycle, AtZeroWithNobodyAskingIsADecisionAndNotWantOfKnowledge) {
  auto config = with_targets();
  config.models =
      *Config::parse("default:\n  targetTTFT: 300\n  targetITL: 20\n  scaleToZero: true\n", "x");
  const auto decide = [&](std::optional<Backlog> gateway, std::int64_t current) {
    CycleState state(std::nullopt);
    auto input = input_of(variant("h100", current));
    input.models[0].gateway = gateway;
    return run_cycle(0, input, config, state);
  };
  const auto rest = decide(Backlog{0}, 0);
  EXPECT_FALSE(rest.any_failed());
  EXPECT_EQ(rest.decisions[0].desired, 0);
  EXPECT_TRUE(rest.decisions[0].informed);
  EXPECT_THAT(rest.models[0].variants[0].failure.value_or(""), HasSubstr("nobody asks"));
  EXPECT_EQ(decide(Backlog{1}, 0).decisions[0].desired, 1);
  EXPECT_TRUE(decide(std::nullopt, 0).any_failed()) << "nobody knows whether somebody asks";
  EXPECT_TRUE(decide(Backlog{0}, 1).any_failed()) << "its replica said nothing";
  EXPECT_EQ(decide(Backlog{0}, 1).decisions[0].desired, 1);
}

// Embeddings generate no token, so there is nothing to size for; they are use all the same.
TEST(Cycle, AModelThatOnlyEmbedsIsHeldAndNotTakenToZero) {
  auto config = with_targets();
  config.models = *Config::parse(
      "default: {targetTTFT: 300, targetITL: 20, scaleToZero: true, retention: 300s}\n", "x");
  // By engines that count such requests, with each way to say that no length is known, and by a
  // gateway before engines that do not.
  for (const auto output :
       {std::optional<double>{}, std::optional<double>{0}, std::optional<double>{NAN}}) {
    for (const double engine_rate : {5.0, 0.0}) {
      CycleState state(std::nullopt);
      const auto cycle = [&](int c, double rate) {
        auto v = variant("h100", 1);
        tune::Observation pod;
        pod.time_s = 60 * c;
        pod.pod = "p0";
        pod.rate_per_s = rate > 0 ? engine_rate : 0;
        pod.running = 0;
        pod.input_tokens = 100;
        pod.output_tokens = output;
        v.pods.push_back(pod);
        auto input = input_of(std::move(v));
        input.models[0].gateway =
            Backlog{.requests = 0, .arrivals_per_s = 0, .relayed_per_s = rate};
        return run_cycle(pod.time_s, input, config, state);
      };
      for (int c = 0; c < 20; ++c) {
        const auto result = cycle(c, 5);
        ASSERT_EQ(result.decisions[0].desired, 1) << c;
        ASSERT_TRUE(std::isfinite(result.models[0].demand_per_s));
        ASSERT_EQ(result.decisions[0].action, Action::kHold);
      }
      for (int c = 20; c < 25; ++c) EXPECT_EQ(cycle(c, 0).decisions[0].desired, 1) << c;
      EXPECT_EQ(cycle(25, 0).decisions[0].desired, 0) << "idle for the retention";
    }
  }
}

TEST(Cycle, AnEmbeddingWakesAModelFromZero) {
  auto config = with_targets();
  config.models =
      *Config::parse("default:\n  targetTTFT: 300\n  targetITL: 20\n  scaleToZero: true\n", "x");
  CycleState state(std::nullopt);
  auto input = input_of(variant("h100", 0));
  input.models[0].gateway = Backlog{.requests = 0, .arrivals_per_s = 0, .relayed_per_s = 0.1};
  EXPECT_EQ(run_cycle(0, input, config, state).decisions[0].desired, 1);
}

TEST(Cycle, AModelWhoseEntryIsWrongIsNotWokenFromZero) {
  CycleConfig config;
  const std::vector<ConfigEntry> entries = {
      {"default", "scaleToZero: true", 0},
      {"bad", "model_id: llama\nnamespace: prod\nsloMultiplier: 1", 0}};
  config.models = Config::of_entries(entries, "config");
  CycleState state(std::nullopt);
  const auto result = run_cycle(0, input_of(variant("h100", 0)), config, state);
  EXPECT_EQ(result.decisions[0].desired, 0);
}

TEST(Cycle, GpusInUseAreTakenOffTheTotal) {
  auto config = with_targets();
  const double capacity = true_capacity(config);
  for (const std::int64_t gpus : {2, 3}) {
    config.total_gpus = GpuLimits{.available = {{"H100", gpus}}};
    CycleState state(std::nullopt);
    EXPECT_EQ(run(state, config, 10, 3 * capacity, 2).decisions[0].desired, gpus);
  }
}

TEST(Cycle, GrowthStopsAtTheTighterOfWhatIsConfiguredAndWhatNodesHave) {
  auto config = with_targets();
  config.limit_to_nodes = true;
  const double capacity = true_capacity(config);
  const auto desired = [&](std::optional<std::int64_t> configured,
                           const std::map<std::string, std::int64_t>& nodes) {
    config.total_gpus.reset();
    if (configured) config.total_gpus = GpuLimits{.available = {{"H100", *configured}}};
    CycleState state(std::nullopt);
    run(state, config, 10, 1.5 * capacity, 2);
    auto input = input_of(variant("h100", 2));
    for (int p = 0; p < 2; ++p) {
      input.models[0].variants[0].pods.push_back(
          report(fmt::format("p{}", p), 660, 0.75 * capacity));
    }
    input.models[0].gateway = Backlog{0};
    input.models[0].gateway->arrivals_per_s = 9 * capacity;
    input.node_gpus = nodes;
    return run_cycle(660, input, config, state).decisions[0].desired;
  };
  const auto unlimited = desired(-1, {{"H100", 1'000}});
  EXPECT_GT(unlimited, 5);
  EXPECT_EQ(desired(std::nullopt, {{"H100", 4}}), 4);
  EXPECT_EQ(desired(-1, {{"H100", 4}}), 4);
  EXPECT_EQ(desired(5, {{"H100", 16}}), 5);
  EXPECT_EQ(desired(16, {{"H100", 5}}), 5);
  EXPECT_EQ(desired(std::nullopt, {{"H100", 0}}), 2) << "what is there stays";
  EXPECT_EQ(desired(std::nullopt, {{"L4", 4}}), unlimited) << "not known under this name";
  EXPECT_EQ(desired(5, {{"L4", 4}}), 5);
}

TEST(Cycle, NodesThatNobodyCountedAreSaidToLimitNothing) {
  auto config = with_targets();
  config.limit_to_nodes = true;
  CycleState state(std::nullopt);
  const auto result = run(state, config, 10, 50, 2);
  EXPECT_THAT(result.models[0].notes, ::testing::Contains(HasSubstr("limits nothing")));
}

TEST(SpecSection8, AFreshReplicaTeachesNothingFor120Seconds) {
  const auto config = with_targets();
  CycleState state(std::nullopt);
  const auto before = run(state, config, 10, 40, 2).models[0].variants[0].parameters;
  // A third replica that compiles its kernels, with latencies that are no measure of the hardware.
  const auto cycle_at = [&](double time_s) {
    auto v = variant("h100", 3);
    v.scaled_up_at_s = 570;
    for (const char* name : {"p0", "p1"}) v.pods.push_back(report(name, time_s, 20));
    auto fresh = report("new", time_s, 13);
    *fresh.ttft_ms *= 10;
    *fresh.itl_ms *= 10;
    v.pods.push_back(fresh);
    return run_cycle(time_s, input_of(std::move(v)), config, state).models[0].variants[0];
  };
  const auto during = cycle_at(600);
  EXPECT_THAT(during.parameters.reason, HasSubstr("younger than 120 s"));
  EXPECT_NEAR(during.parameters.values->alpha_ms / before.values->alpha_ms, 1, 0.05);
  EXPECT_THAT(cycle_at(660).parameters.reason, HasSubstr("younger than 120 s"));
  EXPECT_THAT(cycle_at(720).parameters.reason, ::testing::Not(HasSubstr("younger than")));
}

TEST(Cycle, WhatWasLearntOutlivesTheProcess) {
  const auto config = with_targets();
  CycleState first(std::nullopt);
  const auto before = run(first, config, 12, 40, 2);
  const auto document = first.save(720);
  CycleState second(std::nullopt);
  ASSERT_TRUE(second.restore(document));
  auto v = variant("renamed", 2);
  v.current = 0;
  const auto after = run_cycle(780, input_of(std::move(v)), config, second);
  const auto& parameters = after.models[0].variants[0].parameters;
  ASSERT_TRUE(parameters.values);
  EXPECT_DOUBLE_EQ(parameters.values->alpha_ms,
                   before.models[0].variants[0].parameters.values->alpha_ms);
  EXPECT_FALSE(CycleState(std::nullopt).restore("no document"));
}

TEST(Cycle, SameCallsSameBytes) {
  const auto text = [] {
    CycleState state(StabilisationConfig{});
    const auto result = run(state, CycleConfig{}, 8, 60, 3);
    return explain_json(result.models[0], result.decisions) + state.save(480);
  };
  EXPECT_EQ(text(), text());
}

TEST(Cycle, StabilisationHoldsBackAShrinkForItsWindow) {
  const auto config = with_targets();
  CycleState state(StabilisationConfig{});
  const double capacity = true_capacity(config);
  EXPECT_EQ(run(state, config, 3, 0.5 * capacity, 5).decisions[0].desired, 5);
  EXPECT_LT(run(state, config, 12, 0.5 * capacity, 5, 180).decisions[0].desired, 5);
}

TEST(Cycle, TwoVariantsOfOneNameHoldTheirModel) {
  CycleInput input;
  input.models.push_back({kLlama, 1, std::nullopt, {variant("a", 1), variant("a", 2)}});
  CycleState state(std::nullopt);
  const auto result = run_cycle(0, input, with_targets(), state);
  EXPECT_THAT(*result.models[0].failure, HasSubstr("two of its variants"));
  EXPECT_EQ(result.decisions[1].desired, 2);
}

TEST(Cycle, PublishedModesLearnAndHoldAsTheyDid) {
  CycleConfig config;
  config.models.change_all([](ModelSettings& s) {
    s.estimator = tune::EstimatorKind::kKalman;
    s.latency_model = queueing::Mode::kChain;
    s.assembly = Assembly::kPublished;
  });
  config.optimizer = {.shrink = ShrinkRule::kPublished, .pending_guard = false};
  CycleState state(std::nullopt);
  CycleResult result;
  for (int c = 0; c < 5; ++c) {
    auto v = variant("h100", 1);
    v.pods.push_back(report("p", 60.0 * c, 4, true_model(queueing::Mode::kChain)));
    result = run_cycle(60.0 * c, input_of(std::move(v)), config, state);
  }
  EXPECT_EQ(result.models[0].slo.source, SloSource::kInferred) << "from the first cycle on";
  EXPECT_EQ(result.models[0].required_per_s, 0);
  EXPECT_EQ(result.decisions[0].desired, 1);
}

TEST(Cycle, NoNumberInTheInputEscapesAsNone) {
  const double wild[] = {
      0, -1, 1e-300, 1, 1e9, 1e18, std::numeric_limits<double>::infinity(), std::nan("")};
  int tried = 0;
  for (const bool published : {false, true}) {
    CycleConfig config;
    if (published) {
      config.models.change_all([](ModelSettings& s) {
        s.estimator = tune::EstimatorKind::kKalman;
        s.latency_model = queueing::Mode::kChain;
        s.assembly = Assembly::kPublished;
      });
    }
    CycleState state(StabilisationConfig{});
    for (const double x : wild) {
      for (const double y : wild) {
        auto v = variant("v", 1);
        v.limits.max_num_seqs = 16;
        auto o = report("p", 60.0 * tried, 4);
        o.rate_per_s = x;
        o.input_tokens = y;
        o.output_tokens = tried % 2 == 0 ? x : y;
        o.ttft_ms = tried % 3 == 0 ? 50 : x;
        o.itl_ms = tried % 5 == 0 ? 10 : y;
        o.output_cv = x;
        o.waiting = y;
        v.pods.push_back(o);
        v.cost = y;
        auto input = input_of(std::move(v));
        input.models[0].gateway = Backlog{x, y, x};
        const auto result = run_cycle(60.0 * tried++, input, config, state);
        const auto& m = result.models[0];
        for (const double value : {m.supply_per_s, m.demand_per_s, m.required_per_s, m.spare_per_s,
                                   m.variants[0].per_replica_per_s, m.variants[0].utilization}) {
          EXPECT_TRUE(std::isfinite(value) && value >= 0) << x << " " << y;
        }
        EXPECT_GE(result.decisions[0].desired, 0);
        boost::system::error_code broken;
        boost::json::parse(explain_json(m, result.decisions), broken);
        EXPECT_FALSE(broken) << "a bare nan is no JSON";
      }
    }
  }
}

}  // namespace
}  // namespace tailrace::capacity
