#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "simulate/parallel.h"
#include "tailrace/simulate/experiment_report.h"

namespace tailrace::simulate {
namespace {

TEST(RunExperiment, GivesTheSameBytesOnOneThreadAndOnMany) {
  const auto experiment = parse_experiment(
      "seeds: 3\n"
      "workload: {load: 1.2, requests: 300}\n"
      "fleet: {engine: {max_num_seqs: 8}}\n"
      "predictor: {kind: noisy-law, r2_mu: 0.8, r2_sigma: 0.7}\n"
      "grid: {policy.name: [fcfs, tie, mean], workload.lengths.mu_mean: [4, 5]}\n",
      "test");
  ASSERT_TRUE(experiment.has_value()) << experiment.error().message;
  const auto document = [&](std::size_t jobs) {
    RunOptions options;
    options.jobs = jobs;
    const auto result = run_experiment(*experiment, options);
    EXPECT_TRUE(result.has_value()) << result.error().message;
    return result ? to_json(*experiment, *result) + to_text(*experiment, *result) : "";
  };
  const std::string one = document(1);
  EXPECT_FALSE(one.empty());
  EXPECT_EQ(one, document(2));
  EXPECT_EQ(one, document(5));
}

TEST(RunParallel, HandsOverInOrderAndStopsAtTheEarliestError) {
  std::vector<std::size_t> order;
  ParallelWork work;
  work.pieces = 200;
  work.jobs = 4;
  work.work = [](std::size_t) { return Result<void>(); };
  work.in_order = [&](std::size_t i) {
    order.push_back(i);
    return Result<void>();
  };
  ASSERT_TRUE(run_parallel(work).has_value());
  ASSERT_EQ(order.size(), 200u);
  for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], i);

  std::atomic<std::size_t> begun{0};
  work.in_order = nullptr;
  work.pieces = 100'000;
  work.work = [&](std::size_t i) -> Result<void> {
    ++begun;
    if (i >= 3) return fail(ErrorCode::kInternal, "piece");
    return {};
  };
  EXPECT_FALSE(run_parallel(work).has_value());
  EXPECT_LT(begun.load(), 100u);
}

}  // namespace
}  // namespace tailrace::simulate
