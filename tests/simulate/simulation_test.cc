#include "tailrace/simulate/simulation.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tailrace::simulate
