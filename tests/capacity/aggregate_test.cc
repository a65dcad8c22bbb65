// What pods see together: the specification's means, and ours.
#include "tailrace/capacity/aggregate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "capacity/support/vectors.h"

namespace tailrace::capacity {
namespace {

tune::Observation pod(double rate, double input, double output, double ttft, double itl) {
  tune::Observation o;
  o.rate_per_s = rate;
  o.input_tokens = input;
  o.output_tokens = output;
  o.ttft_ms = ttft;
  o.itl_ms = itl;
  return o;
}

WorkloadSummary sum(Assembly assembly, const std::vector<tune::Observation>& pods) {
  Aggregator all(assembly);
  for (const auto& p : pods) all.add(p);
  return all.summary();
}

constexpr Assembly kBoth[] = {Assembly::kCorrected, Assembly::kPublished};

TEST(SpecSection4_1, MeansAreWeightedByArrivalRateOverBusyPods) {
  for (const auto assembly : kBoth) {
    const auto s = sum(assembly, {pod(2, 100, 50, 50, 10), pod(1, 400, 200, 200, 20),
                                  pod(0, 9000, 9000, 9000, 9000)});
    EXPECT_EQ(s.busy_pods, 2);
    EXPECT_EQ(s.pods, 3);
    EXPECT_DOUBLE_EQ(s.rate_per_s, 3);
    EXPECT_DOUBLE_EQ(s.rate_per_busy_pod(), 1.5);
    EXPECT_DOUBLE_EQ(*s.input_tokens, 200);
    EXPECT_DOUBLE_EQ(*s.output_tokens, 100);
    EXPECT_DOUBLE_EQ(*s.ttft_ms, 100);
    EXPECT_DOUBLE_EQ(*s.itl_ms, 40.0 / 3);
  }
}

TEST(SpecSection4_1, WithoutABusyPodNothingIsKnown) {
  for (const auto assembly : kBoth) {
    const auto s = sum(assembly, {pod(0, 10, 10, 100, 100)});
    EXPECT_EQ(s.busy_pods, 0);
    EXPECT_EQ(s.rate_per_s, 0);
    EXPECT_FALSE(s.input_tokens || s.output_tokens || s.ttft_ms || s.itl_ms);
    EXPECT_FALSE(s.workload());
  }
}

TEST(Aggregate, ReferenceVectors) {
  const auto rows = ::tailrace::testing::queueing_vectors("D");
  if (rows.empty()) GTEST_SKIP() << "no reference vectors; set TAILRACE_SHARED";
  for (const auto& row : rows) {
    for (const auto assembly : kBoth) {
      Aggregator all(assembly);
      for (const auto& p : row.inputs.at("pods").as_array()) {
        const auto at = [&](const char* key) { return ::tailrace::testing::number(p.at(key)); };
        all.add(pod(at("rate"), at("in"), at("out"), 1000 * at("ttft"), 1000 * at("itl")));
      }
      const auto s = all.summary();
      EXPECT_EQ(s.busy_pods, row.out("busy_pods")) << row.id;
      if (!row.expected.contains("total_rate")) continue;
      const auto near = [&](double ours, const char* key, double factor = 1) {
        EXPECT_NEAR(ours / (factor * row.out(key)), 1, 1e-9) << row.id << " " << key;
      };
      near(s.rate_per_s, "total_rate");
      near(s.rate_per_busy_pod(), "avg_rate");
      near(*s.input_tokens, "avg_in");
      near(*s.output_tokens, "avg_out");
      near(*s.ttft_ms, "avg_TTFT_s", 1000);
      near(*s.itl_ms, "avg_ITL_s", 1000);
    }
  }
}

TEST(Aggregate, AMissingMetricPullsTheMeanDownOnlyWherePublished) {
  auto silent = pod(1, 100, 50, 0, 0);
  silent.ttft_ms.reset();
  silent.itl_ms = std::numeric_limits<double>::quiet_NaN();
  const std::vector<tune::Observation> pods = {pod(1, 100, 50, 80, 10), silent};
  const auto ours = sum(Assembly::kCorrected, pods);
  EXPECT_DOUBLE_EQ(*ours.ttft_ms, 80);
  EXPECT_DOUBLE_EQ(*ours.itl_ms, 10);
  const auto published = sum(Assembly::kPublished, pods);
  EXPECT_DOUBLE_EQ(*published.ttft_ms, 40);
  EXPECT_DOUBLE_EQ(*published.itl_ms, 5);
}

TEST(Aggregate, LatenciesWeighByCompletedRequestsWhereEveryPodTells) {
  auto a = pod(1, 100, 50, 100, 10), b = pod(1, 100, 50, 200, 20);
  a.requests = 30;
  b.requests = 10;
  EXPECT_DOUBLE_EQ(*sum(Assembly::kCorrected, {a, b}).ttft_ms, 125);
  b.requests.reset();
  EXPECT_DOUBLE_EQ(*sum(Assembly::kCorrected, {a, b}).ttft_ms, 150);
}

TEST(Aggregate, TheSecondMomentHoldsTheSpreadInsideAndBetweenPods) {
  auto a = pod(1, 100, 50, 100, 10), b = pod(3, 100, 250, 100, 10);
  a.output_cv = 2;
  b.output_cv = 1;
  const auto w = *sum(Assembly::kCorrected, {a, b}).workload();
  EXPECT_DOUBLE_EQ(w.rate_per_s, 2);
  EXPECT_DOUBLE_EQ(w.output_mean, 200);
  EXPECT_DOUBLE_EQ(w.output_second_moment, (50. * 50 * 5 + 3 * 250. * 250 * 2) / 4);
  EXPECT_DOUBLE_EQ(w.cross_moment, 100 * 200);
  EXPECT_TRUE(queueing::check(w));
}

TEST(Aggregate, AnUnknownRateIsCountedAsUnknownRatherThanIdle) {
  auto lost = pod(1, 100, 50, 100, 10);
  lost.rate_per_s.reset();
  const auto nan = pod(std::nan(""), 100, 50, 100, 10);
  const auto negative = pod(-1, 100, 50, 100, 10);
  const auto s = sum(Assembly::kCorrected, {lost, nan, negative, pod(1, 100, 50, 100, 10)});
  EXPECT_EQ(s.pods, 4);
  EXPECT_EQ(s.unknown_pods, 3);
  EXPECT_EQ(s.busy_pods, 1);
}

TEST(Aggregate, NoInputMakesANumberThatIsNone) {
  const double wild[] = {
      0, -1, 1e-300, 1e9, 1e308, std::numeric_limits<double>::infinity(), std::nan("")};
  for (const double rate : wild) {
    for (const double x : wild) {
      auto p = pod(rate, x, x, x, x);
      p.requests = p.waiting = p.output_cv = p.input_cv = p.prefix_hit = x;
      for (const auto assembly : kBoth) {
        const auto s = sum(assembly, {p, pod(1, 100, 50, 100, 10), p});
        for (const double value :
             {s.rate_per_s, s.waiting, *s.input_tokens, *s.output_tokens, *s.ttft_ms, *s.itl_ms,
              s.input_second_moment, s.output_second_moment, s.cross_moment, s.prefix_hit}) {
          EXPECT_TRUE(std::isfinite(value) && value >= 0) << rate << " " << x;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tailrace::capacity
