// Which latencies a model should keep, and where they come from.
#include "tailrace/capacity/slo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capacity/support/vectors.h"

namespace tailrace::capacity {
namespace {

using ::testing::HasSubstr;

WorkloadSummary traffic(double input, double output, double ttft = 0, double itl = 0) {
  tune::Observation o;
  o.rate_per_s = 1;
  o.input_tokens = input;
  o.output_tokens = output;
  if (ttft > 0) o.ttft_ms = ttft;
  if (itl > 0) o.itl_ms = itl;
  Aggregator all(Assembly::kCorrected);
  all.add(o);
  return all.summary();
}

LearntVariant learnt(std::string name, double a, double b, double g) {
  return {std::move(name), {.alpha_ms = a, .beta_ms = b, .gamma_ms = g}};
}

TEST(SpecSection3_1, ExplicitTargetsAreUsedAsTheyAre) {
  ModelSettings s;
  s.targets.ttft_ms = 50'000;
  s.targets.itl_ms = 5'000;
  const LearntVariant one[] = {learnt("a", 10.645377, 0.041760195, 5.770509e-05)};
  const auto slo = resolve_slo(s, one, traffic(1024, 256, 100, 20));
  EXPECT_EQ(slo.source, SloSource::kExplicit);
  EXPECT_EQ(slo.targets.ttft_ms, 50'000) << "the caps are of the fallback alone";
  EXPECT_EQ(slo.targets.itl_ms, 5'000);
  EXPECT_EQ(resolve_slo(s, {}, WorkloadSummary{}).source, SloSource::kExplicit)
      << "needs no traffic";
}

TEST(SpecSection3_1, PercentilesBindExplicitTargetsOnly) {
  ModelSettings s;
  s.targets.statistic = queueing::Statistic::kP90;
  const LearntVariant one[] = {learnt("a", 10, 0.04, 5e-05)};
  EXPECT_EQ(resolve_slo(s, one, traffic(1024, 256)).targets.statistic, queueing::Statistic::kMean);
  s.targets.ttft_ms = 500;
  s.targets.itl_ms = 50;
  EXPECT_EQ(resolve_slo(s, one, traffic(1024, 256)).targets.statistic, queueing::Statistic::kP90);
}

TEST(SpecSection3_2, TheMaximumOverVariantsMayMixThem) {
  ModelSettings s;
  s.slo_multiplier = 2;
  const LearntVariant two[] = {learnt("a", 12, 0.01, 1e-05), learnt("b", 8, 0.05, 1e-04)};
  const auto slo = resolve_slo(s, two, traffic(2000, 100));
  EXPECT_EQ(slo.source, SloSource::kInferred);
  EXPECT_DOUBLE_EQ(slo.targets.ttft_ms, 116.2);
  EXPECT_DOUBLE_EQ(slo.targets.itl_ms, 24.030505);
  EXPECT_THAT(slo.reason, HasSubstr("TTFT of b, ITL of a"));
}

TEST(SpecSection3_2, AVariantWithoutParametersDoesNotContribute) {
  ModelSettings s;
  const LearntVariant two[] = {learnt("a", 10, 0.04, 5e-05), learnt("b", 100, 0, 0)};
  const auto slo = resolve_slo(s, two, traffic(1000, 100));
  EXPECT_NEAR(slo.targets.ttft_ms, 30 + 0.04005 * 1000, 1e-9);
}

TEST(SpecSection3_3, WithoutParametersTheObservedLatencyWithHeadroomAndCaps) {
  const ModelSettings s;
  const auto slo = resolve_slo(s, {}, traffic(100, 100, 120, 18));
  EXPECT_EQ(slo.source, SloSource::kObserved);
  EXPECT_DOUBLE_EQ(slo.targets.ttft_ms, 180);
  EXPECT_DOUBLE_EQ(slo.targets.itl_ms, 27);
  const auto capped = resolve_slo(s, {}, traffic(100, 100, 9000, 400));
  EXPECT_DOUBLE_EQ(capped.targets.ttft_ms, 10000);
  EXPECT_DOUBLE_EQ(capped.targets.itl_ms, 500);
}

TEST(SpecSection3_3, WithoutBothLatenciesThereIsNoSlo) {
  const auto slo = resolve_slo({}, {}, traffic(100, 100, 120, 0));
  EXPECT_EQ(slo.source, SloSource::kNone);
  EXPECT_THAT(slo.reason, HasSubstr("targetTTFT"));
  EXPECT_EQ(resolve_slo({}, {}, WorkloadSummary{}).source, SloSource::kNone);
}

TEST(Slo, ReferenceVectors) {
  const auto rows = ::tailrace::testing::queueing_vectors("E");
  if (rows.empty()) GTEST_SKIP() << "no reference vectors; set TAILRACE_SHARED";
  for (const auto& row : rows) {
    const auto in = [&](const char* key) { return row.inputs.contains(key) ? row.in(key) : 0; };
    ModelSettings s;
    if (row.inputs.contains("k")) s.slo_multiplier = in("k");
    s.targets.ttft_ms = in("explicit_TTFT");
    s.targets.itl_ms = in("explicit_ITL");
    std::vector<LearntVariant> variants;
    for (const auto& p : row.inputs.at("learned").as_array()) {
      const auto at = [&](std::size_t i) { return ::tailrace::testing::number(p.as_array()[i]); };
      variants.push_back(learnt("v", at(0), at(1), at(2)));
    }
    auto wide = traffic(std::max(in("avg_in"), 1.0), std::max(in("avg_out"), 1.0),
                        1000 * in("avg_TTFT_s"), 1000 * in("avg_ITL_s"));
    if (row.inputs.contains("busy_pods") && in("busy_pods") == 0) wide = {};
    const auto slo = resolve_slo(s, variants, wide);
    const std::string path(row.expected.at("path").as_string());
    EXPECT_EQ(to_string(slo.source), path == "fallback" ? "observed" : path) << row.id;
    if (!row.expected.contains("TTFT")) continue;
    EXPECT_NEAR(slo.targets.ttft_ms / row.out("TTFT"), 1, 1e-9) << row.id;
    EXPECT_NEAR(slo.targets.itl_ms / row.out("ITL"), 1, 1e-9) << row.id;
  }
}

SloTarget inferred(double alpha) {
  const LearntVariant one[] = {learnt("a", alpha, 0.04, 5e-05)};
  return resolve_slo({}, one, traffic(1000, 100));
}

TEST(SloFreeze, ASettledTargetNoLongerFollowsItsOwnAlpha) {
  SloFreeze freeze;
  const auto wide = traffic(1000, 100);
  for (int cycle = 0; cycle < 4; ++cycle) freeze.update(inferred(10), true, 3, wide);
  ASSERT_TRUE(freeze.frozen());
  EXPECT_EQ(freeze.update(inferred(20), true, 3, wide).targets.itl_ms, inferred(10).targets.itl_ms);
}

TEST(SloFreeze, WaitsForIdentifiedParametersThatStandStill) {
  SloFreeze unidentified, moving;
  const auto wide = traffic(1000, 100);
  for (int cycle = 0; cycle < 10; ++cycle) {
    unidentified.update(inferred(10), false, 3, wide);
    moving.update(inferred(10 + 2 * cycle), true, 3, wide);
  }
  EXPECT_FALSE(unidentified.frozen());
  EXPECT_FALSE(moving.frozen());
}

TEST(SloFreeze, LetsGoWhereItsReasonsChange) {
  const auto wide = traffic(1000, 100);
  const auto settled = [&] {
    SloFreeze freeze;
    for (int cycle = 0; cycle < 4; ++cycle) freeze.update(inferred(10), true, 3, wide);
    return freeze;
  };
  auto multiplier = settled();
  EXPECT_EQ(multiplier.update(inferred(20), true, 4, wide).targets.itl_ms,
            inferred(20).targets.itl_ms);
  auto lengths = settled();
  EXPECT_EQ(lengths.update(inferred(20), true, 3, traffic(1000, 200)).targets.itl_ms,
            inferred(20).targets.itl_ms);
  auto explicit_one = settled();
  ModelSettings s;
  s.targets.ttft_ms = 500;
  s.targets.itl_ms = 50;
  EXPECT_EQ(explicit_one.update(resolve_slo(s, {}, wide), true, 3, wide).targets.ttft_ms, 500);
  auto no_traffic = settled();
  EXPECT_EQ(no_traffic.update(resolve_slo({}, {}, {}), true, 3, {}).source, SloSource::kInferred)
      << "an idle cycle keeps it";
}

}  // namespace
}  // namespace tailrace::capacity
