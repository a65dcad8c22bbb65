// What will arrive, by what has arrived.
#include "tailrace/capacity/forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tailrace/core/rng.h"

namespace tailrace::capacity {
namespace {

using ::testing::HasSubstr;

constexpr double kCycle = 15, kAhead = 30;

/// Requests in a cycle by chance, to a rate.
double counted(double rate, Rng& rng) {
  double at_s = 0, count = 0;
  while ((at_s += rng.exponential() / rate) < kCycle) ++count;
  return count / kCycle;
}

/// Every cycle's forecast but the first ten.
void each_forecast(const std::function<double(double)>& rate_at, std::uint64_t seed,
                   const std::function<void(double, const Forecast&)>& see) {
  DemandHistory history;
  Rng rng(seed);
  for (int k = 1; k <= 120; ++k) {
    const double now_s = k * kCycle;
    history.add(now_s, {counted(rate_at(now_s - kCycle / 2), rng), kCycle});
    const auto forecast = history.ahead(kAhead, 1);
    ASSERT_TRUE(forecast);
    if (k > 10) see(now_s, *forecast);
  }
}

TEST(Forecast, OfNothingIsNothing) {
  DemandHistory history;
  EXPECT_FALSE(history.ahead(30, 1));
  history.add(15, {std::numeric_limits<double>::quiet_NaN(), 15});
  history.add(30, {-1, 15});
  history.add(45, {10, 0});
  history.add(60, {std::numeric_limits<double>::infinity(), 15});
  EXPECT_FALSE(history.ahead(30, 1));
}

TEST(Forecast, OfASteadyRateIsThatRateAndAMarginOfChance) {
  double off = 0, margin = 0;
  int n = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    each_forecast([](double) { return 20.0; }, seed,
                  [&](double, const Forecast& f) {
                    off += std::abs(f.ahead - 20), margin += f.demand - f.ahead, ++n;
                    ASSERT_LT(f.demand, 20 * 1.4);
                  });
  }
  EXPECT_LT(off / n, 0.04 * 20);
  EXPECT_GT(margin / n, 0.01 * 20);
  EXPECT_LT(margin / n, 0.06 * 20);
}

TEST(Forecast, OfARampIsAsFarAheadAsAReplicaNeeds) {
  // From 20 to 80 in ten minutes and on: 0.1 requests/s more each second.
  const auto ramp = [](double at_s) { return 20 + 0.1 * at_s; };
  double off = 0, off_now = 0;
  int n = 0, short_of = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    each_forecast(ramp, seed, [&](double now_s, const Forecast& f) {
      const double then = ramp(now_s + kAhead);
      off += f.demand / then - 1, off_now += f.now / ramp(now_s) - 1, ++n;
      if (f.demand < 0.97 * then) ++short_of;
    });
  }
  EXPECT_NEAR(off_now / n, 0, 0.02);
  EXPECT_GT(off / n, 0);
  EXPECT_LT(off / n, 0.06);
  EXPECT_LT(short_of, n / 20);
}

TEST(Forecast, OfAStepFollowsWithinTwoCycles) {
  DemandHistory history;
  for (int k = 1; k <= 20; ++k) history.add(k * kCycle, {10, kCycle});
  history.add(21 * kCycle, {30, kCycle});
  history.add(22 * kCycle, {30, kCycle});
  EXPECT_NEAR(history.ahead(kAhead, 0)->now, 30, 3);
  history.add(23 * kCycle, {5, kCycle});
  history.add(24 * kCycle, {5, kCycle});
  EXPECT_NEAR(history.ahead(kAhead, 0)->now, 5, 3);
}

TEST(Forecast, OneCycleFarOffTheOthersIsCutAndSaid) {
  DemandHistory history;
  for (int k = 1; k <= 20; ++k) history.add(k * kCycle, {10, kCycle});
  history.add(21 * kCycle, {1'000, kCycle});
  const auto forecast = history.ahead(kAhead, 1);
  EXPECT_LT(forecast->demand, 60);
  EXPECT_THAT(forecast->note, HasSubstr("1000 requests/s arrived, 100 times as many as lately"));
  history.add(22 * kCycle, {10, kCycle});
  history.add(23 * kCycle, {10, kCycle});
  EXPECT_LT(history.ahead(kAhead, 1)->demand, 15);
  EXPECT_EQ(history.ahead(kAhead, 1)->note, "");
}

TEST(Forecast, IsBoundedWhateverTheTrend) {
  DemandHistory history;
  for (int k = 1; k <= 6; ++k) history.add(k * kCycle, {10.0 * k * k * k, kCycle});
  const auto forecast = history.ahead(3'600, 0);
  EXPECT_LE(forecast->ahead, 2 * forecast->now);
}

TEST(Forecast, OfAFallNeedsWhatThereIsUntilThen) {
  DemandHistory history;
  for (int k = 1; k <= 12; ++k) history.add(k * kCycle, {100.0 - 5 * k, kCycle});
  const auto forecast = history.ahead(kAhead, 0);
  EXPECT_LT(forecast->ahead, forecast->now);
  EXPECT_EQ(forecast->demand, forecast->now);
}

TEST(Forecast, OfWindowsThatOverlapKnowsThatTheyAreOld) {
  // Means of a minute, every 15 s, of a ramp without chance.
  DemandHistory history;
  for (int k = 5; k <= 20; ++k) history.add(k * kCycle, {10 + 0.1 * (k * kCycle - 30), 60});
  EXPECT_NEAR(history.ahead(kAhead, 0)->now, 10 + 0.1 * 20 * kCycle, 0.5);
}

TEST(Forecast, BeginsAnewAfterAGap) {
  DemandHistory history;
  for (int k = 1; k <= 12; ++k) history.add(k * kCycle, {100, kCycle});
  history.add(2'000, {7, kCycle});
  EXPECT_NEAR(history.ahead(kAhead, 0)->demand, 7, 1e-9);
}

}  // namespace
}  // namespace tailrace::capacity
