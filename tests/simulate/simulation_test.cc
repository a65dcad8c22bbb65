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

/// What waited when the last of 2,000 requests came: in the engine's line, or in front of it.
std::uint64_t waiting_at_last(const std::string& policy, double rate, bool front) {
  RunSpec spec;
  spec.fleet.engine.max_num_seqs = 8;
  spec.fleet.line = FleetSpec::Line::kPolicy;
  spec.fleet.scheduler.policy = policy;
  spec.front.queue = front;
  spec.workload.arrivals.rate = rate;
  spec.workload.arrivals.count = 2000;
  const auto totals = run(spec, [](const RequestRecord&) {});
  EXPECT_TRUE(totals.has_value());
  return totals->waiting_at_last;
}

TEST(Simulation, CountsAsWaitingWhoeverIsInNoBatchWhenTheLastRequestComes) {
  // Every newcomer is served soon under las: what piles up has been sent back.
  EXPECT_GT(waiting_at_last("las", 30, false), 500u);
  EXPECT_GT(waiting_at_last("fcfs", 30, false), 500u);
  EXPECT_GT(waiting_at_last("fcfs", 30, true), 500u);
  EXPECT_LT(waiting_at_last("las", 1, false), 5u);
  EXPECT_LT(waiting_at_last("fcfs", 1, true), 5u);
}

TEST(Simulation, CountsNoneTwiceThatWaits) {
  // Two run, two wait, and the last one has only just come.
  for (const bool front : {false, true}) {
    RunSpec spec;
    spec.fleet.engine.max_num_seqs = 2;
    spec.front.queue = front;
    std::vector<Request> requests;
    for (std::uint64_t id = 0; id < 5; ++id) {
      requests.push_back(testing::request(id, id < 4 ? 0 : 1, 10, 1000));
    }
    EXPECT_EQ(testing::run_given(spec, std::move(requests)).totals.waiting_at_last, 3u) << front;
  }
}

TEST(Simulation, ThatReachesTheEndOfTheClockIsAnErrorUnlessAHorizonEndsIt) {
  RunSpec spec;
  spec.fleet.engine.cost.alpha_ms = 100'000;
  spec.fleet.engine.max_model_len = 1 << 30;
  spec.fleet.engine.kv_blocks = 1 << 27;
  spec.workload.arrivals.count = 3;
  spec.workload.lengths.kind = LengthSpec::Kind::kFixed;
  spec.workload.lengths.mean = 1e9;
  spec.workload.lengths.cap = 1'000'000'000;
  const auto endless = run(spec, [](const RequestRecord&) {});
  ASSERT_FALSE(endless.has_value());
  EXPECT_NE(endless.error().message.find("end of the clock, 292 years, with 0 of 3"),
            std::string::npos)
      << endless.error().message;
  spec.horizon_s = 1e6;
  const auto ended = run(spec, [](const RequestRecord&) {});
  ASSERT_TRUE(ended.has_value()) << ended.error().message;
  EXPECT_EQ(ended->unfinished, 3u);
  EXPECT_DOUBLE_EQ(to_seconds(ended->end), 1e6);
  EXPECT_GT(ended->mean_kv_share, 0);
  EXPECT_LE(ended->mean_kv_share, 1);
}

}  // namespace
}  // namespace tailrace::simulate
