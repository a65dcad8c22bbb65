#include "tailrace/simulate/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/runs.h"

namespace tailrace::simulate {
namespace {

TEST(Simulation, EveryRequestEndsOnce) {
  RunSpec spec;
  spec.fleet.engine.max_num_seqs = 32;
  spec.fleet.line = FleetSpec::Line::kPolicy;
  spec.predictor.kind = PredictorSpec::Kind::kNoisyLaw;
  spec.predictor.r2_mu = 0.82;
  spec.predictor.r2_sigma = 0.76;
  spec.workload.arrivals.rate = 20;
  spec.workload.arrivals.count = 500;
  std::uint64_t ended = 0;
  const auto totals = run(spec, [&](const RequestRecord& r) {
    ++ended;
    EXPECT_LE(r.arrival, *r.admitted);
    EXPECT_LT(*r.admitted, *r.first_token);
    EXPECT_LE(*r.first_token, *r.finished);
  });
  ASSERT_TRUE(totals.has_value()) << totals.error().message;
  EXPECT_EQ(totals->offered, 500u);
  EXPECT_EQ(ended, 500u);
}

/// The medians that the online predictor said for requests that came while the first ones, all of
/// 6,000 tokens, were being written.
std::vector<double> medians_while_written(bool queue) {
  RunSpec spec;
  spec.fleet.engine.max_num_seqs = 256;
  spec.front.queue = queue;
  spec.predictor.kind = PredictorSpec::Kind::kOnline;
  std::vector<Request> requests;
  for (std::uint64_t i = 0; i < 60; ++i) {
    requests.push_back(testing::request(i, 0.5 * static_cast<double>(i), 10, 6000));
    requests.back().cap = Tokens(16'384);
  }
  testing::Ran ran = testing::run_given(spec, requests);
  std::sort(ran.records.begin(), ran.records.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  EXPECT_GT(*ran.records.front().finished, ran.records.back().arrival) << "nobody had ended yet";
  std::vector<double> medians;
  for (const RequestRecord& r : ran.records) medians.push_back(*r.predicted_median);
  return medians;
}

TEST(Simulation, TheOnlinePredictorLearnsFromAnswersThatAreStillBeingWritten) {
  for (const bool queue : {false, true}) {
    const std::vector<double> medians = medians_while_written(queue);
    EXPECT_EQ(medians[5], medians[0]) << "too short to be told of, queue " << queue;
    EXPECT_GT(medians.back(), 1.2 * medians.front()) << "queue " << queue;
  }
}

}  // namespace
}  // namespace tailrace::simulate
