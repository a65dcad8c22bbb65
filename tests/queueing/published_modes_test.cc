// Do the published modes agree with a computation at 50 digits (golden/generate.py)?
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "queueing/support/vectors.h"
#include "tailrace/queueing/sizing.h"

namespace tailrace::queueing {
namespace {

using Row = std::map<std::string, double>;
using testing::relative_error;

std::vector<Row> golden_rows() {
  std::ifstream file(std::string(TAILRACE_SOURCE_DIR) +
                     "/tests/queueing/golden/published_modes.csv");
  std::vector<std::string> names;
  std::vector<Row> rows;
  std::string line, cell;
  for (bool header = true; std::getline(file, line); header = false) {
    std::stringstream cells(line);
    Row row;
    for (std::size_t column = 0; std::getline(cells, cell, ','); ++column) {
      if (header) {
        names.push_back(cell);
      } else {
        row[names.at(column)] = std::stod(cell);
      }
    }
    if (!header) rows.push_back(row);
  }
  return rows;
}

ServiceModel model_of(const Row& row, Mode mode) {
  ServiceModel model;
  model.mode = mode;
  model.iteration = {
      .alpha_ms = row.at("alpha"), .beta_ms = row.at("beta"), .gamma_ms = row.at("gamma")};
  model.limits.max_num_seqs = static_cast<std::int64_t>(row.at("batch"));
  model.limits.max_queue = static_cast<std::int64_t>(row.at("queue"));
  return model;
}

Workload workload_of(const Row& row) {
  return Workload::of(row.at("rate"), row.at("input"), row.at("output"));
}

double rate_of(const Row& row, Mode mode) {
  const Targets targets{.ttft_ms = row.at("target_ttft"), .itl_ms = row.at("target_itl")};
  return size(model_of(row, mode), workload_of(row), targets).value().rate_per_s;
}

TEST(PublishedModes, ClosedFormAgreesToTwelveDigits) {
  const auto rows = golden_rows();
  ASSERT_EQ(rows.size(), 7u);
  for (const Row& row : rows) {
    const Latency found = latency(model_of(row, Mode::kClosedForm), workload_of(row)).value();
    EXPECT_LE(relative_error(found.delta_ms, row.at("delta")), 1e-12);
    EXPECT_LE(relative_error(found.rho, row.at("rho")), 1e-12);
    EXPECT_LE(relative_error(*found.ttft_ms, row.at("closed_ttft")), 1e-12);
    EXPECT_LE(relative_error(*found.itl_ms, row.at("closed_itl")), 1e-12);
    EXPECT_LE(relative_error(*found.concurrency, row.at("closed_concurrency")), 1e-12);
    EXPECT_LE(relative_error(found.max_rate_per_s, row.at("closed_max_rate")), 1e-12);
    // A rate that no target binds stays a billionth below the largest.
    EXPECT_LE(relative_error(rate_of(row, Mode::kClosedForm), row.at("closed_rate")), 1.1e-9);
  }
}

TEST(PublishedModes, ParametersOfMinusZeroAreZero) {
  ServiceModel model;
  model.mode = Mode::kClosedForm;
  model.iteration = {.alpha_ms = 5, .beta_ms = -0.0, .gamma_ms = -0.0};
  const auto out = latency(model, Workload::of(1, 100, 10));
  ASSERT_TRUE(out.has_value());
  EXPECT_GT(out->max_rate_per_s, 0);
}

TEST(PublishedModes, ChainAgreesToTenDigits) {
  for (const Row& row : golden_rows()) {
    const Latency found = latency(model_of(row, Mode::kChain), workload_of(row)).value();
    EXPECT_LE(relative_error(*found.ttft_ms, row.at("chain_ttft")), 1e-10);
    EXPECT_LE(relative_error(*found.itl_ms, row.at("chain_itl")), 1e-10);
    EXPECT_NEAR(*found.wait_ms, row.at("chain_wait"), 1e-10 * row.at("chain_wait") + 1e-20);
    EXPECT_LE(relative_error(*found.e2e_ms, row.at("chain_e2e")), 1e-10);
    EXPECT_LE(relative_error(*found.concurrency, row.at("chain_concurrency")), 1e-10);
    EXPECT_LE(relative_error(*found.throughput_per_s, row.at("chain_throughput")), 1e-10);
    EXPECT_LE(relative_error(found.max_rate_per_s, row.at("chain_max_rate")), 1e-12);
    EXPECT_LE(relative_error(rate_of(row, Mode::kChain), row.at("chain_rate")), 1e-9);
  }
}

TEST(PublishedModes, AnIdleChainAnswersTheLimitOfFewRequests) {
  for (const Row& row : golden_rows()) {
    const ServiceModel model = model_of(row, Mode::kChain);
    Workload few = workload_of(row);
    few.rate_per_s *= 1e-12;
    Workload none = few;
    none.rate_per_s = 0;
    const Latency near = latency(model, few).value();
    const Latency idle = latency(model, none).value();
    ASSERT_TRUE(idle.stable);
    EXPECT_LE(relative_error(*idle.ttft_ms, *near.ttft_ms), 1e-9);
    EXPECT_LE(relative_error(*idle.itl_ms, *near.itl_ms), 1e-9);
    EXPECT_EQ(*idle.concurrency, 0);
  }
}

TEST(PublishedModes, TheChainIsIdleWhereNumbersEnd) {
  for (const double rate : {1e-319, 1.0}) {
    ServiceModel model;
    model.mode = Mode::kChain;
    const double scale = rate < 1 ? 1 : 1e-323;  // of the iteration
    model.iteration = {.alpha_ms = 8 * scale, .beta_ms = 0.016 * scale, .gamma_ms = 0};
    const Latency at = latency(model, Workload::of(rate, 512, 128)).value();
    ASSERT_TRUE(at.stable);
    EXPECT_GE(*at.itl_ms, 0);
    EXPECT_GE(*at.e2e_ms, *at.itl_ms);
    if (rate < 1) {
      EXPECT_NEAR(*at.itl_ms, 8.096, 0.01);
    }
  }
}

TEST(PublishedModes, AQueueOfMillionsCostsTheChainNothing) {
  ServiceModel model;
  model.mode = Mode::kChain;
  model.iteration = {.alpha_ms = 6, .beta_ms = 0.02, .gamma_ms = 7.6e-5};
  const Workload work = Workload::of(30, 512, 128);
  model.limits.max_queue = 2'000;
  const Latency long_queue = latency(model, work).value();
  model.limits.max_queue = 10'000'000;
  const Latency endless = latency(model, work).value();
  EXPECT_LE(relative_error(*endless.ttft_ms, *long_queue.ttft_ms), 1e-12);
  EXPECT_EQ(*endless.throughput_per_s, 30);
}

}  // namespace
}  // namespace tailrace::queueing
