// The specification's defaults table, and what its data flow promises.
#include <gtest/gtest.h>

#include "tailrace/capacity/aggregate.h"
#include "tailrace/capacity/config.h"
#include "tailrace/capacity/defaults.h"
#include "tailrace/capacity/slo.h"

namespace tailrace::capacity {
namespace {

TEST(SpecSection8, TheDefaultsTable) {
  EXPECT_EQ(kDefaultSloMultiplier, 3.0);
  EXPECT_EQ(kDefaultMaxBatchSize, 256);
  EXPECT_EQ(kDefaultMaxQueueSize, 100);
  EXPECT_EQ(kDefaultFallbackHeadroom, 1.5);
  EXPECT_EQ(kDefaultMaxFallbackTtftMs, 10000);
  EXPECT_EQ(kDefaultMaxFallbackItlMs, 500);
  EXPECT_EQ(kDefaultMaxNis, 7.378);
  EXPECT_EQ(kDefaultAlphaMs, 5.0);
  EXPECT_EQ(kDefaultBetaMs, 0.05);
  EXPECT_EQ(kDefaultGammaMs, 0.00005);
  EXPECT_EQ(kBaseFactor, 0.9);
  EXPECT_EQ(kTransientDelaySeconds, 120);
}

TEST(SpecSection8, DefaultsAreWhatAVariantAndAModelBeginWith) {
  EXPECT_EQ(Variant{}.limits.max_num_seqs, kDefaultMaxBatchSize);
  EXPECT_EQ(Variant{}.limits.max_queue, kDefaultMaxQueueSize);
  EXPECT_EQ(ModelSettings{}.slo_multiplier, kDefaultSloMultiplier);
  EXPECT_EQ(ModelSettings{}.transient_delay_s, kTransientDelaySeconds);
}

TEST(SpecSection2, OnceRunningAConfigurationIsTakenAnewEachCycle) {
  // Nothing of a configuration outlives it: another one gives other settings at once.
  const std::vector<ConfigEntry> two = {{"default", "sloMultiplier: 2", 0}};
  const std::vector<ConfigEntry> five = {{"default", "sloMultiplier: 5", 0}};
  EXPECT_EQ(Config::of_entries(two, "c").settings_of({"ns", "m"})->slo_multiplier, 2);
  EXPECT_EQ(Config::of_entries(five, "c").settings_of({"ns", "m"})->slo_multiplier, 5);
}

}  // namespace
}  // namespace tailrace::capacity
