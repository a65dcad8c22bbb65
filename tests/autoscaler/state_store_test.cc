// What a ConfigMap can hold of what was learnt.
#include "tailrace/autoscaler/state_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autoscaler/support/fakes.h"

namespace tailrace::autoscaler {
namespace {

/// A brain that has learnt of so many accelerators, the later ones more recently.
std::string learnt(int accelerators, double& now_s) {
  Brain brain{capacity::StabilisationConfig{}};
  capacity::CycleConfig config;
  brain.configure(config);
  now_s = testing::kStartS;
  for (int a = 0; a < accelerators; ++a) {
    testing::Fleet fleet;
    for (int c = 0; c < 6; ++c) {
      now_s += 15;
      auto snapshot = fleet.snapshot(now_s);
      snapshot.models[0].variants[0].accelerator = fmt::format("gpu-{}", a);
      (void)brain.think(snapshot);
    }
  }
  return brain.save(now_s);
}

TEST(ShrunkState, ForgetsWhatWasNotSeenForLongestAndIsStillRead) {
  double now_s = 0;
  const std::string whole = learnt(8, now_s);
  std::size_t dropped = 0;
  EXPECT_EQ(shrink_state(whole, whole.size(), dropped), whole);
  EXPECT_EQ(dropped, 0u);

  const std::string less = shrink_state(whole, whole.size() * 2 / 3, dropped);
  EXPECT_LE(less.size(), whole.size() * 2 / 3);
  EXPECT_GE(dropped, 1u);
  EXPECT_LT(dropped, 8u);
  EXPECT_EQ(less.find("\"gpu-0\""), std::string::npos);
  EXPECT_NE(less.find("\"gpu-7\""), std::string::npos);
  Brain brain{capacity::StabilisationConfig{}};
  const auto read = brain.restore(less);
  EXPECT_TRUE(read) << read.error().message;
}

TEST(ShrunkState, WhatIsNoneOfOursIsLeftAsItIs) {
  std::size_t dropped = 0;
  EXPECT_EQ(shrink_state("no JSON at all", 3, dropped), "no JSON at all");
  EXPECT_EQ(shrink_state("{\"x\":1}", 3, dropped), "{\"x\":1}");
  EXPECT_EQ(dropped, 0u);
}

}  // namespace
}  // namespace tailrace::autoscaler
