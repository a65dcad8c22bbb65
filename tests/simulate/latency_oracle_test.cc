#include "tailrace/simulate/latency_oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "simulate/gap_counter.h"
#include "tailrace/simulate/replica_run.h"

namespace tailrace::simulate {
namespace {

using queueing::Iterations;
using queueing::Latency;
using queueing::ServiceModel;
using queueing::Workload;

ServiceModel h100(std::int64_t slots = 256) {
  ServiceModel model;
  model.iteration = {.alpha_ms = 6, .beta_ms = 0.02, .gamma_ms = 7.6e-5};
  model.limits = {.max_num_seqs = slots, .max_batched_tokens = 0};
  return model;
}

Latency ask(const ServiceModel& model, const Workload& workload) {
  const auto out = make_latency_oracle()->latency(model, workload);
  EXPECT_TRUE(out.has_value()) << out.error().message;
  return out.value_or(Latency{});
}

TEST(LengthTables, HaveTheMomentsThatWereAskedFor) {
  const Workload asked = Workload::of(1, 512.3, 128.7, 1.5, 1.8);
  const Workload got = tables_for(asked).workload(1);
  EXPECT_NEAR(got.input_mean / asked.input_mean, 1, 1e-3);
  EXPECT_NEAR(got.output_mean / asked.output_mean, 1, 1e-3);
  EXPECT_NEAR(got.input_cv(), 1.5, 0.01);
  EXPECT_NEAR(got.output_cv(), 1.8, 0.01);
}

TEST(LengthTables, MixNeighboursWhereAFixedLengthIsNotWhole) {
  const Workload got = tables_for(Workload::of(1, 10.25, 3.5)).workload(1);
  EXPECT_NEAR(got.input_mean, 10.25, 1e-3);
  EXPECT_NEAR(got.output_mean, 3.5, 1e-3);
}

TEST(LengthTables, LogTOfThePublishedTableVariesByOnePointEight) {
  LengthTables tables{.prompts = {512}, .outputs = log_t_table(128, 3.5, 0.75, 16)};
  const Workload w = tables.workload(1);
  EXPECT_NEAR(w.output_mean, 128, 0.05);
  EXPECT_NEAR(w.output_cv(), 1.81, 0.02);
  EXPECT_LE(tables.outputs.back(), 2048);
}

TEST(LengthTables, OfAWorkloadHaveAnswersOfThePublishedTail) {
  const LengthTables published{.prompts = {512}, .outputs = log_t_table(128, 3.5, 0.75, 16)};
  const LengthTables got = tables_for(published.workload(1));
  ASSERT_EQ(got.outputs.size(), published.outputs.size());
  for (const double p : {0.1, 0.5, 0.9, 0.99, 1.0}) {
    const auto row =
        static_cast<std::size_t>(p * static_cast<double>(published.outputs.size() - 1));
    const auto wanted = static_cast<double>(published.outputs[row]);
    EXPECT_NEAR(static_cast<double>(got.outputs[row]), wanted, 0.01 * wanted + 1) << p;
  }
  // The cut allows no more than 3.9; log-normal answers vary as much as they are told to.
  EXPECT_NEAR(tables_for(Workload::of(1, 512, 128, 0, 5)).workload(1).output_cv(), 5, 0.05);
}

TEST(ReplicaRun, ARequestAloneTakesItsOwnIterations) {
  ServiceModel model = h100();
  const Latency out = ask(model, Workload::of(1e-3, 1000, 100));
  ASSERT_TRUE(out.stable);
  // The prompt's iteration, then one a token with a growing context.
  EXPECT_NEAR(*out.ttft_ms, 6 + 1000 * (0.02 + 7.6e-5), 0.01 * *out.ttft_ms);
  EXPECT_NEAR(*out.itl_ms, 6 + 0.02 + 7.6e-5 * (1000 + 50), 0.01 * *out.itl_ms);
  EXPECT_NEAR(*out.e2e_ms, *out.ttft_ms + 99 * *out.itl_ms, 0.5);
}

/// One request at a time, 10 ms for each of its tokens.
ReplicaSpec one_slot() {
  ReplicaSpec spec;
  spec.engine = *engine_of(h100(1));
  spec.engine.cost = {.alpha_ms = 10, .beta_ms = 0, .gamma_ms = 0, .knee_tokens = 0};
  spec.lengths = {.prompts = {1}, .outputs = {2, 4, 10, 20, 34}, .in_turn = false};
  return spec;
}

TEST(ReplicaRun, OneSlotIsTheQueueOfPollaczekAndKhinchine) {
  ReplicaSpec spec = one_slot();
  spec.requests_max = 200'000;
  const Workload w = spec.lengths.workload(0);
  spec.rate_per_s = 0.6 / (w.output_mean * 0.01);
  const auto run = run_replica(spec);
  ASSERT_TRUE(run.has_value());
  const double wait_ms = spec.rate_per_s * 1e-3 * 100 * w.output_second_moment / (2 * (1 - 0.6));
  EXPECT_NEAR(run->wait_ms, wait_ms, 4 * run->ttft_error_ms);
  EXPECT_LT(run->ttft_error_ms, 0.03 * wait_ms);
  EXPECT_NEAR(run->itl_ms, 10, 1e-9);
}

// Values of an independent simulation: mean, P90 and P99 of TTFT, ITL, in ms.
TEST(ReplicaRun, AgreesWithAnIndependentSimulationOfThePublishedSemantics) {
  struct Row {
    double rho, ttft, p90, p99, itl;
  };
  for (const Row& row :
       {Row{0.3, 24, 33, 47, 8.7}, Row{0.5, 31, 45, 67, 12.3}, Row{0.67, 42, 63, 94, 18.7}}) {
    ReplicaSpec spec;
    spec.engine = *engine_of(h100());
    spec.lengths = {.prompts = {512}, .outputs = {129}};
    const double request_ms =
        (0.02 + 7.6e-5) * 512 + 0.02 * 128 + 7.6e-5 * (512 * 128 + (128 * 128 + 128) / 2.0);
    spec.rate_per_s = row.rho * 1e3 / request_ms;
    spec.requests_max = 100'000;
    const auto run = run_replica(spec);
    ASSERT_TRUE(run.has_value());
    EXPECT_NEAR(run->ttft_ms, row.ttft, 0.02 * row.ttft + 0.5);
    EXPECT_NEAR(run->ttft_percentiles_ms.p90, row.p90, 0.02 * row.p90 + 0.5);
    EXPECT_NEAR(run->ttft_percentiles_ms.p99, row.p99, 0.04 * row.p99);
    EXPECT_NEAR(run->itl_ms, row.itl, 0.01 * row.itl + 0.05);
  }
}

TEST(Saturation, OfSlotsIsWhatAFullBatchCompletes) {
  for (const bool heavy : {false, true}) {
    ReplicaSpec spec;
    spec.engine = *engine_of(h100());
    spec.lengths = {.prompts = {512}, .outputs = {128}};
    if (heavy) spec.lengths.outputs = log_t_table(128, 3.5, 0.75, 16);
    const Workload w = spec.lengths.workload(0);
    const double o = w.output_mean;
    const double request_ms = (0.02 + 7.6e-5) * 512 + 0.02 * (o - 1) +
                              7.6e-5 * (512 * (o - 1) + (w.output_second_moment - o) / 2);
    const double rate = 256e3 / (o * 6 + 256 * request_ms);
    const auto got = saturate_replica(spec);
    ASSERT_TRUE(got.has_value());
    EXPECT_NEAR(got->rate_per_s, rate, 0.01 * rate);
    EXPECT_LT(got->error_per_s, 0.005 * rate);
  }
}

TEST(Saturation, OfMillionsOfSlotsIsExtrapolated) {
  ReplicaSpec spec;
  spec.engine = *engine_of(h100(1'000'000));
  spec.lengths = {.prompts = {512}, .outputs = {128}};
  const double request_ms =
      (0.02 + 7.6e-5) * 512 + 0.02 * 127 + 7.6e-5 * (512 * 127 + (128 * 128 - 128) / 2.0);
  const auto got = saturate_replica(spec);
  ASSERT_TRUE(got.has_value());
  EXPECT_NEAR(got->rate_per_s, 1e3 / request_ms, 0.01 * 1e3 / request_ms);
}

TEST(LatencyOracle, CallsARateStableIfAndOnlyIfTheEngineKeepsUp) {
  const ServiceModel model = h100();
  const double limit = ask(model, Workload::of(1, 512, 128)).max_rate_per_s;
  EXPECT_TRUE(ask(model, Workload::of(0.98 * limit, 512, 128)).stable);
  const Latency above = ask(model, Workload::of(1.02 * limit, 512, 128));
  EXPECT_FALSE(above.stable);
  EXPECT_FALSE(above.ttft_ms.has_value());
  EXPECT_TRUE(above.from_oracle);
  // The engine itself says so too: its line grows and grows.
  ReplicaSpec spec;
  spec.engine = *engine_of(model);
  spec.lengths = tables_for(Workload::of(1, 512, 128));
  spec.rate_per_s = 1.05 * limit;
  spec.requests_max = 20'000;
  const auto run = run_replica(spec);
  ASSERT_TRUE(run.has_value());
  EXPECT_GT(run->waiting_end, 400U);
}

TEST(LatencyOracle, GivesTheSameAnswerTwice) {
  const Workload w = Workload::of(30, 512, 128, 0.5, 1);
  const Latency a = ask(h100(), w), b = ask(h100(), w);
  EXPECT_EQ(*a.ttft_ms, *b.ttft_ms);
  EXPECT_EQ(a.ttft_percentiles_ms->p99, b.ttft_percentiles_ms->p99);
  EXPECT_EQ(a.max_rate_per_s, b.max_rate_per_s);
}

TEST(ReplicaRun, KnowsHowFarItsP99MayBeOff) {
  ReplicaSpec spec = one_slot();
  spec.requests_max = 40'000;
  spec.rate_per_s = 0.7 / (spec.lengths.workload(0).output_mean * 0.01);
  constexpr int kRuns = 20;
  double sum = 0, squares = 0, said = 0;
  for (int seed = 1; seed <= kRuns; ++seed) {
    spec.seed = static_cast<std::uint64_t>(seed);
    const auto run = run_replica(spec);
    ASSERT_TRUE(run.has_value());
    const double p99 = run->ttft_percentiles_ms.p99;
    sum += p99, squares += p99 * p99, said += run->ttft_p99_error_ms / kRuns;
  }
  const double sd = std::sqrt((squares - sum * sum / kRuns) / (kRuns - 1));
  EXPECT_GT(said, 0.6 * sd);
  EXPECT_LT(said, 1.6 * sd);
  // Told to, it goes on until that is small.
  spec.requests_max = 1'000'000;
  spec.p99_precision = 0.02;
  const auto run = run_replica(spec);
  ASSERT_TRUE(run.has_value());
  EXPECT_LE(run->ttft_p99_error_ms, 0.02 * run->ttft_percentiles_ms.p99);
  EXPECT_GT(run->measured, 40'000U);
  EXPECT_LT(run->measured, 800'000U);
}

// Prompts of random size, of which now and then many are long: a line that stands for minutes. A
// run that holds none of these, or two, is no answer.
TEST(LatencyOracle, AgreesWithItselfOnTheTailNearSaturationWhateverTheSeed) {
  ServiceModel model;
  model.iteration = {.alpha_ms = 10, .beta_ms = 0.0685, .gamma_ms = 9.2e-5, .knee_tokens = 128};
  model.limits = {.max_num_seqs = 256, .max_batched_tokens = 2048};
  const Workload w = Workload::of(7.9, 1000, 256, 1, 0);
  std::vector<double> means, tails;
  for (const std::uint64_t seed : {1, 2, 5}) {
    const auto out = make_latency_oracle({.seed = seed})->latency(model, w);
    ASSERT_TRUE(out.has_value() && out->stable);
    means.push_back(*out->ttft_ms);
    tails.push_back(out->ttft_percentiles_ms->p99);
  }
  const auto [least, most] = std::minmax_element(means.begin(), means.end());
  EXPECT_LT(*most / *least, 1.05);
  const auto [low, high] = std::minmax_element(tails.begin(), tails.end());
  EXPECT_LT(*high / *low, 1.15);
}

TEST(LatencyOracle, OrdersItsPercentiles) {
  const Latency out = ask(h100(), Workload::of(38, 512, 128, 0, 1.8));
  ASSERT_TRUE(out.ttft_percentiles_ms && out.itl_percentiles_ms && out.e2e_percentiles_ms);
  for (const auto& p :
       {*out.ttft_percentiles_ms, *out.itl_percentiles_ms, *out.e2e_percentiles_ms}) {
    EXPECT_LT(0, p.p50);
    EXPECT_LT(p.p50, p.p90);
    EXPECT_LT(p.p90, p.p95);
    EXPECT_LT(p.p95, p.p99);
  }
}

// Every answer meets a few prompts, so mean gaps are much alike and all above the usual one.
TEST(ReplicaRun, CountsSingleGapsBetweenTokensAndNotEachAnswersMean) {
  ReplicaSpec spec;
  spec.engine = *engine_of(h100());
  spec.engine.cost = {.alpha_ms = 10, .beta_ms = 0.02, .gamma_ms = 0, .knee_tokens = 100};
  spec.lengths = {.prompts = {2'000}, .outputs = {200}};
  spec.rate_per_s = 2;
  spec.requests_max = 20'000;
  const auto run = run_replica(spec);
  ASSERT_TRUE(run.has_value());
  // Of the gaps all are 10 ms but those that hold a prompt: 48 or 49 ms, some 2 in 100.
  EXPECT_NEAR(run->itl_percentiles_ms.p50, 10, 0.05);
  EXPECT_NEAR(run->itl_percentiles_ms.p95, 10, 0.05);
  EXPECT_NEAR(run->itl_percentiles_ms.p99, 10 + 0.02 * 1'904, 1);
}

TEST(ReplicaRun, CountsTheGapThatAPreemptionMakes) {
  ReplicaSpec spec;
  ServiceModel model = h100();
  model.limits.kv_tokens = 16 * 8;
  spec.engine = *engine_of(model);
  spec.engine.cost = {.alpha_ms = 10, .beta_ms = 0, .gamma_ms = 0, .knee_tokens = 0};
  spec.lengths = {.prompts = {8}, .outputs = {32}};
  spec.rate_per_s = 0.9 * saturate_replica(spec)->rate_per_s;
  spec.requests_max = 20'000;
  const auto run = run_replica(spec);
  ASSERT_TRUE(run.has_value());
  // More than a hundredth of the gaps.
  ASSERT_GT(run->preemptions, 20'000U * 31 / 100);
  // An iteration takes 10 ms whatever it holds: only preempted sequences wait longer.
  EXPECT_NEAR(run->itl_percentiles_ms.p90, 10, 0.05);
  EXPECT_GT(run->itl_percentiles_ms.p99, 19.9);
}

TEST(GapCounter, IsWithinItsBucketsOfTheExactPercentiles) {
  GapCounter early, gaps;
  early.add(7, 1'000);
  gaps = early;
  for (std::int64_t k = 1; k <= 1'000; ++k) gaps.add(k * 1'000'000, k <= 500 ? 3 : 1);
  const queueing::Percentiles p = gaps.percentiles_since(early);
  EXPECT_NEAR(p.p50, 1'000.0 / 3, 1.5);
  EXPECT_NEAR(p.p90, 800, 3.2);
  EXPECT_NEAR(p.p95, 900, 3.6);
  EXPECT_NEAR(p.p99, 980, 4);
}

TEST(LatencyOracle, CountsOneMoreIterationWhereThePublishedFormsDo) {
  ServiceModel model = h100();
  const Workload w = Workload::of(1e-3, 512, 2);
  const double own = *ask(model, w).e2e_ms;
  model.iterations = Iterations::kOutputPlusOne;
  EXPECT_NEAR(*ask(model, w).e2e_ms - own, 6 + 0.02 + 7.6e-5 * 514, 0.05);
}

TEST(LatencyOracle, SparesWhatThePrefixCacheHoldsTheComputationButNotTheContext) {
  Workload w = Workload::of(1e-3, 1000, 10);
  const double without = *ask(h100(), w).ttft_ms;
  w.prefix_hit = 0.5;
  EXPECT_NEAR(without - *ask(h100(), w).ttft_ms, 500 * 0.02, 0.05);
}

TEST(LatencyOracle, FindsThatMemoryBindsBeforeTheSlots) {
  ServiceModel model = h100();
  const Workload w = Workload::of(1, 512, 128);
  const double slots = ask(model, w).max_rate_per_s;
  model.limits.kv_tokens = 64 * (512 + 128);
  const double memory = ask(model, w).max_rate_per_s;
  EXPECT_LT(memory, 0.85 * slots);
  EXPECT_GT(memory, 0.5 * slots);
}

TEST(LatencyOracle, RefusesWhatItCannotSimulateInReasonableTime) {
  const auto oracle = make_latency_oracle();
  const auto huge = oracle->latency(h100(), Workload::of(1, 1e9, 1e9));
  ASSERT_FALSE(huge.has_value());
  EXPECT_EQ(huge.error().code, ErrorCode::kUnsupported);
  ServiceModel small = h100();
  small.limits.kv_tokens = 100;
  const auto no_room = oracle->latency(small, Workload::of(1, 512, 128));
  ASSERT_FALSE(no_room.has_value());
  EXPECT_EQ(no_room.error().code, ErrorCode::kUnsupported);
}

TEST(LatencyOracle, PassesOnWhatIsWrongWithItsArguments) {
  ServiceModel model = h100();
  model.iteration.alpha_ms = -1;
  const auto out = make_latency_oracle()->latency(model, Workload::of(1, 512, 128));
  ASSERT_FALSE(out.has_value());
  EXPECT_EQ(out.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace tailrace::simulate
