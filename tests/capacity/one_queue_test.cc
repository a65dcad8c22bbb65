// What replicas carry together behind the gateway's one queue, and what is learnt behind it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capacity/steady_lengths.h"
#include "tailrace/capacity/analyzer.h"

namespace tailrace::capacity {
namespace {

using ::testing::HasSubstr;

/// `count` replicas of 64 places whose rate the wait for a place ends, at P99 of TTFT.
VariantCapacity sized(std::int64_t count, bool one_queue, double itl_ms = 50) {
  Variant v;
  v.name = "v";
  v.current = count;
  v.limits.max_num_seqs = 64;
  VariantReading reading;
  reading.variant = &v;
  Aggregator all(Assembly::kCorrected);
  for (std::int64_t i = 0; i < count; ++i) {
    tune::Observation o;
    o.rate_per_s = 5;
    o.input_tokens = 128;
    o.output_tokens = 515;
    o.output_cv = 0.95;
    all.add(o);
  }
  reading.summary = all.summary();
  reading.parameters.values =
      queueing::IterationModel{.alpha_ms = 15, .beta_ms = 0.059, .gamma_ms = 4.8e-5};
  ModelReading model;
  model.variants.push_back(reading);
  model.gateway = Backlog{.requests = 0, .one_queue = one_queue};
  SloTarget slo;
  slo.source = SloSource::kExplicit;
  slo.targets = {.ttft_ms = 2'000, .itl_ms = itl_ms, .statistic = queueing::Statistic::kP99};
  return analyze(model, ModelSettings{}, slo).variants[0];
}

TEST(OneQueue, ReplicasBehindItCarryMoreThanEachAlone) {
  const double alone = sized(8, false).per_replica_per_s;
  const auto together = sized(8, true);
  EXPECT_GT(together.per_replica_per_s, 1.08 * alone);
  EXPECT_LT(together.per_replica_per_s, together.sizing->achieved.max_rate_per_s);
  EXPECT_THAT(together.sizing->reason, HasSubstr("where 7 share one queue"));
}

TEST(OneQueue, OneOrTwoReplicasAreSizedAlone) {
  EXPECT_EQ(sized(1, true).per_replica_per_s, sized(1, false).per_replica_per_s);
  EXPECT_EQ(sized(2, true).per_replica_per_s, sized(2, false).per_replica_per_s);
}

TEST(OneQueue, MoreReplicasCarryMoreEach) {
  double last = 0;
  for (const std::int64_t n : {2, 3, 5, 9, 17}) {
    const double now = sized(n, true).per_replica_per_s;
    EXPECT_GT(now, last) << n;
    last = now;
  }
}

TEST(OneQueue, ChangesNothingWhereTimesBetweenTokensEndTheRate) {
  const auto alone = sized(8, false, 20);
  ASSERT_EQ(alone.sizing->limit, queueing::SizingLimit::kItl);
  EXPECT_EQ(sized(8, true, 20).per_replica_per_s, alone.per_replica_per_s);
}

TEST(SteadyLengths, AreOfMinutesAndFollowWhatStays) {
  SteadyLengths lengths;
  const auto of = [](double output) { return queueing::Workload::of(3, 100, output, 0, 1); };
  EXPECT_EQ(lengths.update(15, of(500))->output_mean, 500);
  // One minute's accident moves little, the rate at once.
  const auto moved = lengths.update(30, of(580));
  EXPECT_NEAR(moved->output_mean, 500, 6);
  EXPECT_EQ(moved->rate_per_s, 3);
  // Other requests, for three cycles: these.
  EXPECT_LT(lengths.update(45, of(1'000))->output_mean, 550);
  EXPECT_LT(lengths.update(60, of(1'000))->output_mean, 580);
  EXPECT_EQ(lengths.update(75, of(1'000))->output_mean, 1'000);
  EXPECT_FALSE(lengths.update(90, std::nullopt));
}

}  // namespace
}  // namespace tailrace::capacity
