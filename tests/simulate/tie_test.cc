// TIE's comparison in a model of it (facts/capacity.md 5.2): a regression test. The engine's width
// is the paper's; its speed, the lengths and the predictors' quality were fitted to the paper's
// figures, so that agreement with those says nothing. What is held here is that the whole chain,
// workload to engine, gives the means that an independent simulation of the same model gave.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tailrace/simulate/simulation.h"

namespace tailrace::simulate {
namespace {

using Kind = PredictorSpec::Kind;

struct Arm {
  std::string name;
  std::string policy;
  Kind kind = Kind::kNone;
  double r2_mu = 1;
  double blocking_ms = 0;
};

RunSpec with(RunSpec spec, const Arm& arm, double rate, std::uint64_t seed) {
  spec.workload.arrivals.rate = rate;
  spec.fleet.line = FleetSpec::Line::kPolicy;
  spec.fleet.scheduler.policy = arm.policy;
  spec.predictor.kind = arm.kind;
  spec.predictor.r2_mu = arm.r2_mu;
  spec.predictor.r2_sigma = 0.76;
  spec.predictor.blocking = from_millis(arm.blocking_ms);
  spec.seed = seed;
  return spec;
}

/// M 32, and an iteration time that serves about 19 requests a second. The prompts' length is not
/// stated there: 50 tokens bring FCFS within 3 % at both rates.
RunSpec scenario_a() {
  RunSpec spec;
  spec.workload.arrivals.duration_s = 60;
  spec.workload.lengths = {.mu_mean = 4.8, .mu_sd = 1.2, .sigma_median = 0.4, .sigma_spread = 0.35};
  spec.workload.prompts.mean = 50;
  spec.fleet.engine.cost = {
      .alpha_ms = 6.5, .beta_ms = 0.015, .gamma_ms = 3.5e-5, .knee_tokens = 48};
  spec.fleet.engine.max_num_seqs = 32;
  return spec;
}

const Arm kFcfs{"FCFS", "fcfs"};
const Arm kSept{"SEPT", "mean", Kind::kNoisyLaw, 0.55};
const Arm kTie{"TIE", "tie", Kind::kNoisyLaw, 0.55};
const Arm kWsept{"WSEPT", "ratio", Kind::kNoisyLaw, 0.55};
const std::vector<Arm> kArmsOfA{kFcfs,
                                {"SSJF", "median", Kind::kPoint, 0.08},
                                {"LTR", "median", Kind::kPoint, 0.15},
                                kSept,
                                kTie,
                                kWsept};

/// Scenario B: one GPU of 256 slots, another fit to the same column; or the 70B model on it.
RunSpec scenario_b(bool of_70b) {
  RunSpec spec;
  spec.workload.arrivals.duration_s = 130;
  spec.workload.lengths = {
      .mu_mean = 5.0, .mu_sd = 0.9, .sigma_median = 0.35, .sigma_spread = 0.35, .least = 4};
  spec.workload.prompts.mean = 80;
  spec.fleet.engine.cost = {
      .alpha_ms = 34, .beta_ms = 0.0685, .gamma_ms = 9.2e-5, .knee_tokens = 128};
  if (of_70b) {
    spec.fleet.engine.cost = {
        .alpha_ms = 100, .beta_ms = 0.165, .gamma_ms = 6e-5, .knee_tokens = 160};
  }
  spec.fleet.engine.max_num_seqs = 256;
  spec.fleet.engine.max_batched_tokens = 2048;
  return spec;
}

/// Seconds per token over one run, from a request's arrival to its last token: the mean of all.
double per_token(const RunSpec& spec) {
  double sum = 0;
  const auto totals = run(spec, [&](const RequestRecord& r) {
    sum += to_seconds(*r.finished - r.arrival) / static_cast<double>(r.output.count());
  });
  EXPECT_TRUE(totals.has_value());
  return sum / static_cast<double>(totals->completed);
}

/// The mean over paired seeds 1, 2, … of an arm's per-token latency.
double mean_of(const RunSpec& scenario, const Arm& arm, double rate, std::uint64_t seeds) {
  double sum = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    sum += per_token(with(scenario, arm, rate, seed));
  }
  return sum / static_cast<double>(seeds);
}

std::map<std::string, double> means(const RunSpec& scenario, const std::vector<Arm>& arms,
                                    double rate, std::uint64_t seeds) {
  std::map<std::string, double> all;
  for (const Arm& arm : arms) all[arm.name] = mean_of(scenario, arm, rate, seeds);
  return all;
}

void expect_order(const std::map<std::string, double>& mean) {
  EXPECT_GT(mean.at("FCFS"), mean.at("SSJF"));
  EXPECT_GT(mean.at("SSJF"), mean.at("LTR"));
  EXPECT_GT(mean.at("LTR"), mean.at("TIE"));
  EXPECT_GT(mean.at("TIE"), mean.at("SEPT"));  // the paper has the opposite sign
  EXPECT_GT(mean.at("SEPT"), mean.at("WSEPT"));
}

TEST(ScenarioA, MeansAndGrowthAreThoseOfTheIndependentSimulation) {
  const auto busy = means(scenario_a(), kArmsOfA, 100, 12);
  const std::map<std::string, double> expected{{"FCFS", 3.12},  {"SSJF", 1.85}, {"LTR", 1.48},
                                               {"SEPT", 0.537}, {"TIE", 0.596}, {"WSEPT", 0.511}};
  for (const auto& [arm, mean] : expected) EXPECT_NEAR(busy.at(arm) / mean, 1, 0.1) << arm;
  expect_order(busy);
  const auto calm = means(scenario_a(), kArmsOfA, 30, 16);
  EXPECT_NEAR(calm.at("FCFS") / 0.466, 1, 0.1);
  EXPECT_GT(busy.at("FCFS") / calm.at("FCFS"), 6.2);
  EXPECT_LT(busy.at("FCFS") / calm.at("FCFS"), 7.5);
  expect_order(calm);
}

TEST(ScenarioA, TailTermCostsWhereTheModelHasNoUseForIt) {
  // Paired per seed there: TIE − SEPT +11.1 ± 0.7 %, WSEPT − SEPT −4.7 ± 0.3 %.
  double tie = 0, wsept = 0;
  constexpr std::uint64_t kSeeds = 8;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const double sept = per_token(with(scenario_a(), kSept, 100, seed));
    tie += per_token(with(scenario_a(), kTie, 100, seed)) / sept - 1;
    wsept += per_token(with(scenario_a(), kWsept, 100, seed)) / sept - 1;
  }
  EXPECT_NEAR(tie / kSeeds, 0.11, 0.04);
  EXPECT_NEAR(wsept / kSeeds, -0.047, 0.02);
}

TEST(ScenarioA, PredictorQualityIsWorthMoreThanTheOrder) {
  Arm better = kTie;
  better.r2_mu = 0.82;  // what the paper states for its predictor
  EXPECT_NEAR(mean_of(scenario_a(), better, 100, 8) / 0.336, 1, 0.12);
}

/// The heat map in four rows: when the answers of each quarter by length complete, shortest first;
/// the median as a share of the run.
std::vector<double> completion_by_length(const Arm& arm) {
  std::vector<std::pair<std::int64_t, double>> done;
  const auto totals = run(with(scenario_a(), arm, 100, 1), [&](const RequestRecord& r) {
    done.emplace_back(r.output.count(), to_seconds(*r.finished));
  });
  EXPECT_TRUE(totals.has_value());
  std::sort(done.begin(), done.end());
  std::vector<double> medians;
  for (std::size_t quarter = 0; quarter < 4; ++quarter) {
    std::vector<double> times;
    for (std::size_t i = done.size() * quarter / 4; i < done.size() * (quarter + 1) / 4; ++i) {
      times.push_back(done[i].second / to_seconds(totals->end));
    }
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                     times.end());
    medians.push_back(times[times.size() / 2]);
  }
  return medians;
}

TEST(ScenarioA, ShortAnswersCompleteEarlyUnderTieAndAtAnyTimeUnderFcfs) {
  const auto tie = completion_by_length(kTie);
  EXPECT_LT(tie[0], 0.15);
  EXPECT_LT(tie[0], tie[1]);
  EXPECT_LT(tie[1], tie[2]);
  EXPECT_LT(tie[2], tie[3]);
  EXPECT_GT(tie[3], 3 * tie[0]);
  for (const double median : completion_by_length(kFcfs)) EXPECT_NEAR(median, 0.5, 0.06);
}

TEST(ScenarioB, FourPoliciesAndTheOracleOnBothModels) {
  const std::vector<Arm> arms{kFcfs,
                              {"SSJF", "median", Kind::kPoint, 0.25, 4},
                              {"LTR", "median", Kind::kPoint, 0.35, 3},
                              {"SEPT", "mean", Kind::kNoisyLaw, 0.82},
                              {"TIE", "tie", Kind::kNoisyLaw, 0.82},
                              {"WSEPT", "ratio", Kind::kNoisyLaw, 0.82},
                              {"oracle", "mean", Kind::kTrueLength}};
  const auto small = means(scenario_b(false), arms, 100, 2);
  const std::map<std::string, double> of_8b{{"FCFS", 3.58},  {"SSJF", 2.13}, {"LTR", 1.74},
                                            {"SEPT", 0.77},  {"TIE", 0.86},  {"WSEPT", 0.75},
                                            {"oracle", 0.37}};
  for (const auto& [arm, mean] : of_8b) EXPECT_NEAR(small.at(arm) / mean, 1, 0.1) << arm;
  expect_order(small);
  const auto large = means(scenario_b(true), arms, 100, 2);
  const std::map<std::string, double> of_70b{{"FCFS", 9.28},  {"SSJF", 5.38}, {"LTR", 4.60},
                                             {"SEPT", 2.52},  {"TIE", 2.71},  {"WSEPT", 2.46},
                                             {"oracle", 1.36}};
  for (const auto& [arm, mean] : of_70b) EXPECT_NEAR(large.at(arm) / mean, 1, 0.1) << arm;
  expect_order(large);
}

}  // namespace
}  // namespace tailrace::simulate
