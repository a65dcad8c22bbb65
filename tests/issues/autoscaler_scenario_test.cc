// One seed of docs/autoscaler-scenario.md, as a test.
#include <gtest/gtest.h>

#include "autoscaler/clairvoyant.h"
#include "autoscaler/scenario.h"

namespace tailrace::scenario {
namespace {

TEST(AutoscalerScenario, HoldsItsTargetsWithAQuarterMoreReplicasThanAClairvoyant) {
  const auto run = autoscaler::run_fleet(fleet(1), settings(settings_text()));
  ASSERT_TRUE(run);
  for (const Segment& s : segments()) {
    if (!s.steady) continue;
    EXPECT_GE(run->goodput(kTargets, s.from_s, s.to_s), 0.99) << s.name;
  }
  EXPECT_GE(run->goodput(kTargets, 0, duration_s()), 0.95);
  EXPECT_LE(run->engine_s(), 1.25 * clairvoyant_engine_s(profile(), duration_s()));
  EXPECT_EQ(run->totals.completed, run->totals.offered);
}

TEST(AutoscalerScenario, ItsPeakTakesEightReplicasAndItsBaseThree) {
  EXPECT_EQ(cheapest_mix(kPeakRate).replicas(), 8);
  EXPECT_EQ(cheapest_mix(kBaseRate).replicas(), 3);
}

}  // namespace
}  // namespace tailrace::scenario
