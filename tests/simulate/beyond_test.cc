// Does gittins still beat TIE by as much as docs/beyond-tie.md says, with every limit held?
//
// A smaller run of experiments/beyond/target.yaml: fixed rates of 1.5 times what the engines serve.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tailrace/engine/presets.h"
#include "tailrace/simulate/simulation.h"

namespace tailrace::simulate {
namespace {

struct Figures {
  double per_token_s = 0, e2e_s = 0, e2e_p99_s = 0, tokens_per_s = 0, preemptions = 0;
};

/// Means over seeds 1, 2, … of 300 s of arrivals, wide laws, predictions of R² 0.82 and 0.76.
Figures figures(const std::string& policy, double rate, const engine::EngineConfig& engine,
                int seeds, bool preempts = true) {
  Figures mean;
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(seeds); ++seed) {
    RunSpec spec;
    spec.seed = seed;
    spec.fleet.engine = engine;
    spec.fleet.line = FleetSpec::Line::kPolicy;
    spec.fleet.scheduler.policy = policy;
    spec.fleet.scheduler.preemption.enabled = preempts;
    spec.workload.arrivals.rate = rate;
    spec.workload.arrivals.duration_s = 300;
    spec.workload.prompts.kind = PromptSpec::Kind::kLogNormal;
    spec.workload.prompts.mean = 300;
    spec.predictor.kind = PredictorSpec::Kind::kNoisyLaw;
    spec.predictor.r2_mu = 0.82;
    spec.predictor.r2_sigma = 0.76;
    std::vector<double> e2e_s;
    double per_token_s = 0, sum_s = 0;
    const auto totals = run(spec, [&](const RequestRecord& r) {
      e2e_s.push_back(to_seconds(*r.finished - r.arrival));
      sum_s += e2e_s.back();
      per_token_s += e2e_s.back() / static_cast<double>(r.output.count());
    });
    EXPECT_TRUE(totals.has_value());
    EXPECT_EQ(totals->completed, totals->offered);
    std::sort(e2e_s.begin(), e2e_s.end());
    const auto n = static_cast<double>(e2e_s.size());
    mean.per_token_s += per_token_s / n / seeds;
    mean.e2e_s += sum_s / n / seeds;
    mean.e2e_p99_s += e2e_s[static_cast<std::size_t>(0.99 * n)] / seeds;
    mean.tokens_per_s +=
        static_cast<double>(totals->output_tokens) / to_seconds(totals->end) / seeds;
    mean.preemptions += static_cast<double>(totals->preemptions) / n / seeds;
  }
  return mean;
}

/// Over ten seeds the 99th percentile is known within 1.3 % (docs/beyond-tie.md); over two or three
/// within 3 %.
constexpr double kP99Noise = 1.03;

struct Limits {
  int seeds;
  double throughput;  ///< of that of arrival order
};

void expect_advantage(double rate, const engine::EngineConfig& engine, const Limits& limits) {
  const Figures tie = figures("tie", rate, engine, limits.seeds);
  const Figures fcfs = figures("fcfs", rate, engine, limits.seeds);
  const Figures gittins = figures("gittins", rate, engine, limits.seeds);
  EXPECT_LE(gittins.per_token_s, 0.25 * tie.per_token_s);
  EXPECT_LE(gittins.e2e_s, 0.92 * tie.e2e_s);
  EXPECT_LE(gittins.e2e_p99_s, kP99Noise * tie.e2e_p99_s);
  EXPECT_GE(gittins.tokens_per_s, limits.throughput * fcfs.tokens_per_s);
  EXPECT_LE(gittins.preemptions, 0.5);
}

engine::EngineConfig batch_bound() {
  engine::EngineConfig engine = engine::find_preset("h100-8b")->config;
  engine.max_num_seqs = 32;
  return engine;
}

TEST(BeyondTie, GittinsKeepsItsAdvantageWhereSlotsBind) {
  // Of two seeds, how full the last batches happen to be decides about a percent of the throughput.
  expect_advantage(27.5, batch_bound(), {3, 0.98});
}

TEST(BeyondTie, GittinsKeepsItsAdvantageWhereMemoryBinds) {
  engine::EngineConfig engine = engine::find_preset("h100-8b")->config;
  engine.max_num_seqs = 256;
  engine.kv_blocks = 3400;
  expect_advantage(37.3, engine, {2, 0.97});
}

TEST(BeyondTie, TheAdvantageIsWhatRunningRequestsShow) {
  // Ranks of the first prediction alone, as if nothing were learned after admission.
  const Figures tie = figures("tie", 27.5, batch_bound(), 1);
  const Figures frozen = figures("gittins", 27.5, batch_bound(), 1, /*preempts=*/false);
  EXPECT_GT(frozen.per_token_s, 0.5 * tie.per_token_s);
}

}  // namespace
}  // namespace tailrace::simulate
