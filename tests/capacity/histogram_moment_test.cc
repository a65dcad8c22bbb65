// How near to the truth moments from buckets come.
#include "tailrace/capacity/histogram_moment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tailrace/length/length_law.h"

namespace tailrace::capacity {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// vLLM's edges: 1, 2, 5, 10, … up to the model's context, and infinity.
std::vector<double> edges(double context) {
  std::vector<double> all;
  for (double ten = 1; ten <= context; ten *= 10) {
    for (const double x : {ten, 2 * ten, 5 * ten}) {
      if (x <= context) all.push_back(x);
    }
  }
  all.push_back(kInfinity);
  return all;
}

struct Truth {
  std::vector<HistogramBucket> buckets;
  LengthMoments moments;
};

/// Of min(X, cap), X log-t.
Truth truth(double mu, double sigma, double cap, double context) {
  const auto law = *length::LengthLaw::log_t(mu, sigma, 3.5);
  Truth t;
  for (const double edge : edges(context)) {
    t.buckets.push_back({edge, 1e6 * (edge >= cap ? 1 : 1 - law.survival(edge))});
  }
  // E[X²] = ∫ 2 x S(x) dx, by steps of a thousandth in x.
  double x = 0;
  while (x < cap) {
    const double step = std::min(std::max(1e-3 * x, 1e-2), cap - x);
    const double middle = x + step / 2, s = law.survival(middle);
    t.moments.mean += s * step;
    t.moments.second += 2 * middle * s * step;
    x += step;
  }
  return t;
}

TEST(HistogramMoment, LogTLengthsWithinFivePercent) {
  double worst = 0;
  for (const double mu : {3.0, 4.5, 5.5, 6.5}) {
    for (const double sigma : {0.3, 0.5, 0.75, 1.0}) {
      for (const double cap : {512.0, 1000.0, 2048.0, 4096.0, 8192.0}) {
        const auto t = truth(mu, sigma, cap, 8192);
        const auto ours = moments_from_histogram(t.buckets, t.moments.mean, 8192);
        ASSERT_TRUE(ours);
        const double error = std::abs(ours->second / t.moments.second - 1);
        worst = std::max(worst, error);
        EXPECT_LT(error, 0.05) << mu << " " << sigma << " " << cap;
        EXPECT_NEAR(ours->mean / t.moments.mean, 1, 1e-3);
      }
    }
  }
  RecordProperty("worst", std::to_string(worst));
}

TEST(HistogramMoment, MidpointsWouldBeFarOff) {
  const auto t = truth(5.5, 0.75, 4096, 8192);
  double second = 0, edge = 0, count = 0;
  for (const auto& b : t.buckets) {
    const double high = std::isfinite(b.upper) ? b.upper : 8192;
    second += (b.cumulative - count) / 1e6 * std::pow((edge + high) / 2, 2);
    edge = high;
    count = b.cumulative;
  }
  EXPECT_GT(std::abs(second / t.moments.second - 1), 0.07);
}

TEST(HistogramMoment, OneLengthInOneBucketIsThatLength) {
  const HistogramBucket buckets[] = {{200, 0}, {500, 10}, {kInfinity, 10}};
  const auto m = moments_from_histogram(buckets, 256, std::nullopt);
  ASSERT_TRUE(m);
  EXPECT_NEAR(m->mean, 256, 0.1);
  EXPECT_LT(m->cv(), 0.2);
}

TEST(HistogramMoment, NothingCountedOrContradictionsAreUnknown) {
  const auto of = [](std::vector<HistogramBucket> buckets) {
    return moments_from_histogram(buckets, 100, std::nullopt);
  };
  EXPECT_FALSE(of({}));
  EXPECT_FALSE(of({{10, 0}, {kInfinity, 0}}));
  EXPECT_FALSE(of({{10, 5}, {20, 3}}));
  EXPECT_FALSE(of({{10, 5}, {5, 6}}));
  EXPECT_FALSE(of({{10, std::nan("")}, {20, 3}}));
  EXPECT_FALSE(of({{std::nan(""), 1}, {20, 3}}));
  EXPECT_FALSE(of({{10, 1}, {20, kInfinity}}));
}

TEST(HistogramMoment, AnyMeanGivesFiniteMoments) {
  const HistogramBucket buckets[] = {{1, 3}, {2, 4}, {5, 4}, {10, 20}, {kInfinity, 21}};
  for (const double mean : {0.0, -1.0, 1e-300, 0.5, 7.0, 1e300, kInfinity, std::nan("")}) {
    for (const double longest : {1.0, 10.0, 100.0, 1e9, kInfinity, std::nan("")}) {
      const auto m = moments_from_histogram(buckets, mean, longest);
      if (!m) continue;
      EXPECT_TRUE(std::isfinite(m->mean) && std::isfinite(m->second));
      EXPECT_GE(m->second, m->mean * m->mean);
    }
  }
}

}  // namespace
}  // namespace tailrace::capacity
