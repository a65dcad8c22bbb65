#include <gtest/gtest.h>

#include "tailrace/simulate/experiment_run.h"

namespace tailrace::simulate {
namespace {

RunSpec of_turns(double turns) {
  RunSpec spec;
  spec.fleet.engine.max_num_seqs = 32;
  spec.workload.arrivals.count = 100;
  spec.workload.lengths.kind = LengthSpec::Kind::kFixed;
  spec.workload.lengths.mean = 50;
  spec.workload.lengths.cap = 50;
  spec.workload.prompts.mean = 500;
  spec.workload.sessions.emplace().turns = turns;
  return spec;
}

TEST(SessionCapacity, IsMeasuredWithLaterTurnsWhosePromptsAreLonger) {
  const auto single = measure_capacity(of_turns(1));
  const auto many = measure_capacity(of_turns(8));
  ASSERT_TRUE(single.has_value()) << single.error().message;
  ASSERT_TRUE(many.has_value()) << many.error().message;
  EXPECT_GT(many->per_second, 0);
  EXPECT_LT(many->per_second, 0.9 * single->per_second);
}

}  // namespace
}  // namespace tailrace::simulate
