// A few rows of docs/capacity-accuracy.md, so that a change that makes the latency formulas worse
// does not wait for the page to be printed anew.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tailrace/queueing/sizing.h"
#include "tailrace/simulate/latency_oracle.h"
#include "tailrace/simulate/replica_run.h"

namespace tailrace::simulate {
namespace {

using queueing::Iterations;
using queueing::Latency;
using queueing::ServiceModel;
using queueing::Workload;

struct Row {
  std::string name;
  queueing::IterationModel iteration;
  bool heavy_tail = false;
  double ttft_target_ms = 0, itl_target_ms = 0;
};

std::vector<Row> rows() {
  const queueing::IterationModel h100{.alpha_ms = 6, .beta_ms = 0.02, .gamma_ms = 7.6e-5};
  const queueing::IterationModel sample{.alpha_ms = 8, .beta_ms = 0.016, .gamma_ms = 5e-4};
  queueing::IterationModel knee = h100;
  knee.knee_tokens = 200;
  return {{"H100, fixed", h100, false, 100, 25},
          {"H100, log-t", h100, true, 100, 25},
          {"sample, log-t", sample, true, 100, 40},
          {"knee, fixed", knee, false, 100, 14}};
}

ServiceModel model_of(const Row& row) {
  ServiceModel model;
  model.iteration = row.iteration;
  model.limits = {.max_num_seqs = 256, .max_batched_tokens = 0};
  model.iterations = Iterations::kOutput;
  return model;
}

ReplicaSpec replica_of(const Row& row) {
  ReplicaSpec spec;
  spec.engine = *engine_of(model_of(row));
  spec.lengths = {.prompts = {512}, .outputs = {128}};
  if (row.heavy_tail) spec.lengths.outputs = log_t_table(128, 3.5, 0.75, 16);
  return spec;
}

TEST(CapacityAccuracy, MeansAreWithinFivePercentOfTheSimulatorUpToNineTenthsOfTheLargestRate) {
  for (const Row& row : rows()) {
    ReplicaSpec spec = replica_of(row);
    spec.requests_max = 20'000;
    const auto limit = saturate_replica(spec);
    ASSERT_TRUE(limit.has_value());
    for (const double load : {0.3, 0.67, 0.88}) {
      SCOPED_TRACE(row.name + ", load " + std::to_string(load));
      spec.requests_max = load > 0.8 ? 400'000 : 100'000;
      spec.rate_per_s = load * limit->rate_per_s;
      const auto formula = queueing::latency(model_of(row), spec.lengths.workload(spec.rate_per_s));
      ASSERT_TRUE(formula.has_value());
      ASSERT_TRUE(formula->stable);
      spec.begin_with = static_cast<std::int64_t>(*formula->concurrency);
      const auto run = run_replica(spec);
      ASSERT_TRUE(run.has_value());
      EXPECT_NEAR(*formula->ttft_ms / run->ttft_ms, 1, 0.05);
      EXPECT_NEAR(*formula->itl_ms / run->itl_ms, 1, 0.05);
    }
  }
}

// Of random prompts the largest take several iterations, and who comes meanwhile waits for them.
TEST(CapacityAccuracy, PercentilesOfRandomPromptsAreWithinFifteenPercent) {
  ServiceModel model;
  model.iteration = {.alpha_ms = 6, .beta_ms = 0.0205, .gamma_ms = 7.6e-5, .knee_tokens = 200};
  model.limits = {.max_num_seqs = 256, .max_batched_tokens = 8192};
  Workload w = Workload::of(1, 2000, 256, 1, 0);
  ReplicaSpec spec;
  spec.engine = *engine_of(model);
  spec.lengths = tables_for(w);
  spec.lengths.in_turn = false;
  spec.requests_max = 60'000;
  for (const double load : {0.02, 0.3, 0.6}) {
    SCOPED_TRACE(load);
    w.rate_per_s = load * queueing::latency(model, w)->max_rate_per_s;
    spec.rate_per_s = w.rate_per_s;
    const auto formula = queueing::latency(model, w, queueing::Detail::kPercentiles);
    ASSERT_TRUE(formula.has_value());
    EXPECT_EQ(formula->out_of_range, queueing::OutOfRange::kNone);
    const auto run = run_replica(spec);
    ASSERT_TRUE(run.has_value());
    const queueing::Percentiles said = *formula->ttft_percentiles_ms;
    EXPECT_NEAR(said.p50 / run->ttft_percentiles_ms.p50, 1, 0.1);
    EXPECT_NEAR(said.p90 / run->ttft_percentiles_ms.p90, 1, 0.05);
    EXPECT_NEAR(said.p99 / run->ttft_percentiles_ms.p99, 1, 0.1);
  }
}

// Prompts of one iteration that exceed its budget are beyond the formula: it says so, and the
// engine simulated answers. Prompts that do not meet the budget are not.
TEST(CapacityAccuracy, WhereMeetingPromptsExceedTheTokenBudgetTheFormulaSaysThatItIsOutOfRange) {
  ServiceModel model;
  model.iteration = {.alpha_ms = 10, .beta_ms = 0.0685, .gamma_ms = 9.2e-5, .knee_tokens = 128};
  model.limits = {.max_num_seqs = 256, .max_batched_tokens = 2048};
  struct Asked {
    double prompt, prompt_cv;
  };
  for (const Asked& asked : {Asked{1000, 1}, Asked{2000, 0}, Asked{4000, 1}}) {
    SCOPED_TRACE(asked.prompt);
    Workload w = Workload::of(1, asked.prompt, 256, asked.prompt_cv, 1.8);
    model.oracle = nullptr;
    w.rate_per_s = 0.5 * queueing::latency(model, w)->max_rate_per_s;
    const auto formula = queueing::latency(model, w);
    ASSERT_TRUE(formula.has_value());
    EXPECT_EQ(formula->out_of_range, queueing::OutOfRange::kPrefillDominated);
    model.oracle = make_latency_oracle();
    const auto answer = queueing::latency(model, w);
    ASSERT_TRUE(answer.has_value());
    EXPECT_TRUE(answer->from_oracle);
    ReplicaSpec spec;
    spec.engine = *engine_of(model);
    spec.lengths = tables_for(w);
    spec.rate_per_s = w.rate_per_s;
    spec.requests_max = 40'000;
    spec.seed = 7;
    const auto run = run_replica(spec);
    ASSERT_TRUE(run.has_value());
    EXPECT_NEAR(*answer->ttft_ms / run->ttft_ms, 1, 0.05);
  }
  Workload brief = Workload::of(1, 512, 128);
  brief.rate_per_s = 0.7 * queueing::latency(model, brief)->max_rate_per_s;
  model.oracle = nullptr;
  EXPECT_EQ(queueing::latency(model, brief)->out_of_range, queueing::OutOfRange::kNone);
}

TEST(CapacityAccuracy, TargetsHoldFivePercentBelowTheComputedRateAndNotFivePercentAbove) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.name);
    ReplicaSpec spec = replica_of(row);
    spec.requests_max = 200'000;
    const auto sized = queueing::size(model_of(row), spec.lengths.workload(0),
                                      {.ttft_ms = row.ttft_target_ms, .itl_ms = row.itl_target_ms});
    ASSERT_TRUE(sized.has_value());
    ASSERT_TRUE(sized->reachable);
    const auto kept = [&](double rate) {
      spec.rate_per_s = rate;
      spec.begin_with = static_cast<std::int64_t>(sized->achieved.concurrency.value_or(0));
      const auto run = run_replica(spec);
      EXPECT_TRUE(run.has_value());
      return run && run->ttft_ms <= row.ttft_target_ms && run->itl_ms <= row.itl_target_ms;
    };
    EXPECT_TRUE(kept(0.95 * sized->rate_per_s));
    EXPECT_FALSE(kept(1.05 * sized->rate_per_s));
  }
}

TEST(CapacityAccuracy, NoFormulaCallsARateStableThatTheEngineCannotServe) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.name);
    ReplicaSpec spec = replica_of(row);
    spec.requests_max = 50'000;
    const auto limit = saturate_replica(spec);
    ASSERT_TRUE(limit.has_value());
    for (const double times : {1.02, 1.2}) {
      const auto formula =
          queueing::latency(model_of(row), spec.lengths.workload(times * limit->rate_per_s));
      ASSERT_TRUE(formula.has_value());
      EXPECT_FALSE(formula->stable);
    }
  }
}

}  // namespace
}  // namespace tailrace::simulate
