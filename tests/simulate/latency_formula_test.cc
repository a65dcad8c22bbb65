// Do the corrected latency formulas say what the simulator does? A few rows; docs/capacity-
// accuracy.md has the tables.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tailrace/engine/presets.h"
#include "tailrace/queueing/service_model.h"
#include "tailrace/simulate/results.h"
#include "tailrace/simulate/simulation.h"

namespace tailrace::simulate {
namespace {

struct Row {
  std::string name;
  engine::EngineConfig engine;
  double prompt, output, share;
  double p99_within = 0.15;
};

engine::EngineConfig engine_of(double alpha, double beta, double gamma, std::int64_t slots,
                               std::int64_t budget) {
  engine::EngineConfig out;
  out.cost.alpha_ms = alpha;
  out.cost.beta_ms = beta;
  out.cost.gamma_ms = gamma;
  out.cost.knee_tokens = 0;
  out.max_num_seqs = slots;
  out.max_batched_tokens = budget;
  out.kv_blocks = 1'000'000;
  return out;
}

queueing::ServiceModel model_of(const engine::EngineConfig& engine) {
  queueing::ServiceModel out;
  out.iteration = {.alpha_ms = engine.cost.alpha_ms,
                   .beta_ms = engine.cost.beta_ms,
                   .gamma_ms = engine.cost.gamma_ms,
                   .knee_tokens = engine.cost.knee_tokens,
                   .per_request_ms = engine.cost.per_request_ms};
  out.limits = {.max_num_seqs = engine.max_num_seqs,
                .max_batched_tokens = engine.max_batched_tokens,
                .kv_tokens = engine.usable_blocks() * engine.block_tokens};
  return out;
}

struct Simulated {
  SpreadCounter ttft, itl;
};

Simulated simulate_row(const engine::EngineConfig& engine, const queueing::Workload& w,
                       std::uint64_t requests) {
  RunSpec spec;
  spec.workload.arrivals.rate = w.rate_per_s;
  spec.workload.arrivals.count = requests;
  spec.workload.lengths.kind = LengthSpec::Kind::kFixed;
  spec.workload.lengths.mean = w.output_mean;
  spec.workload.prompts.mean = w.input_mean;
  spec.fleet.engine = engine;
  Simulated out;
  const auto totals = run(spec, [&](const RequestRecord& r) {
    if (r.id < requests / 5) return;
    out.ttft.add(to_seconds(*r.first_token - r.arrival));
    out.itl.add(to_seconds(*r.finished - *r.first_token) /
                static_cast<double>(r.output.count() - 1));
  });
  EXPECT_TRUE(totals.has_value());
  return out;
}

TEST(LatencyFormula, IsWithinFivePercentOfTheSimulator) {
  const engine::EngineConfig chunked = engine_of(6, 0.02, 7.6e-5, 256, 2048);
  const Row rows[] = {
      {"sample", engine_of(8, 0.016, 5e-4, 256, 8192), 512, 128, 0.8},
      {"prefill makes half of the work", engine_of(10, 0.0685, 9.2e-5, 256, 8192), 512, 128, 0.8},
      {"chunks", chunked, 2048, 256, 0.6, 0.2},
      {"knee", engine::find_preset("h100-8b")->config, 512, 128, 0.6},
      {"few slots", engine_of(6, 0.02, 7.6e-5, 16, 8192), 512, 128, 0.5}};
  for (const Row& row : rows) {
    const queueing::ServiceModel model = model_of(row.engine);
    auto w = queueing::Workload::of(0, row.prompt, row.output);
    w.rate_per_s = row.share * queueing::latency(model, w)->max_rate_per_s;
    const auto formula = queueing::latency(model, w, queueing::Detail::kPercentiles).value();
    const Simulated truth = simulate_row(row.engine, w, 20'000);
    const double ttft = 1e3 * truth.ttft.spread()->mean;
    const double itl = 1e3 * truth.itl.spread()->mean;
    EXPECT_NEAR(*formula.ttft_ms, ttft, 0.05 * ttft) << row.name;
    EXPECT_NEAR(*formula.itl_ms, itl, 0.05 * itl) << row.name;
    const double p90 = 1e3 * truth.ttft.spread()->p90;
    const double p99 = 1e3 * truth.ttft.spread()->p99;
    EXPECT_NEAR(formula.ttft_percentiles_ms->p90, p90, 0.15 * p90) << row.name;
    EXPECT_NEAR(formula.ttft_percentiles_ms->p99, p99, row.p99_within * p99) << row.name;
  }
}

TEST(LatencyFormula, SaysUnstableWhereTheBacklogGrows) {
  for (const engine::EngineConfig& engine :
       {engine_of(6, 0.02, 7.6e-5, 64, 8192), engine_of(6, 0.02, 7.6e-5, 256, 512)}) {
    const queueing::ServiceModel model = model_of(engine);
    auto w = queueing::Workload::of(0, 512, 128);
    const double most = queueing::latency(model, w)->max_rate_per_s;
    // What the engine finishes while it is flooded.
    RunSpec spec;
    spec.workload.arrivals.rate = 1.5 * most;
    spec.workload.arrivals.count = 8'000;
    spec.workload.lengths.kind = LengthSpec::Kind::kFixed;
    spec.workload.lengths.mean = 128;
    spec.workload.prompts.mean = 512;
    spec.fleet.engine = engine;
    double first = 0, last = 0;
    std::uint64_t ended = 0;
    const auto totals = run(spec, [&](const RequestRecord& r) {
      ++ended;
      if (ended == 2'000) first = to_seconds(r.finished->time_since_epoch());
      if (ended == 5'000) last = to_seconds(r.finished->time_since_epoch());
    });
    ASSERT_TRUE(totals.has_value());
    EXPECT_NEAR(most, 3'000 / (last - first), 0.01 * most);
  }
}

}  // namespace
}  // namespace tailrace::simulate
