#include "tailrace/core/token_pace.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tailrace/core/rng.h"

namespace tailrace {
namespace {

constexpr Duration kWindow = std::chrono::seconds(120);

/// An engine whose iterations last `fixed + per_stream · streams + per_prompt · prompts`
/// milliseconds; each stream ends with each token with probability 1 / length.
struct Engine {
  double fixed_ms = 8, per_stream_ms = 0.3, per_prompt_ms = 30;
  double rate_per_s = 4, length = 200;
  double jitter_ms = 0;  ///< exponential, of each token's way
  TokenPaceMeter meter{kWindow};
  Rng rng{1};
  MonoTime now;
  std::uint64_t streams = 0;
  double next_s = 0;

  void run(double until_s) {
    while (to_seconds(now) < until_s) {
      std::uint64_t prompts = 0;
      for (; next_s <= to_seconds(now); next_s += rng.exponential() / rate_per_s) ++prompts;
      if (prompts + streams == 0) {
        now = MonoTime(from_seconds(std::max(next_s, to_seconds(now) + 1e-6)));
        continue;
      }
      const double ms = fixed_ms + per_stream_ms * static_cast<double>(streams) +
                        per_prompt_ms * static_cast<double>(prompts);
      now += from_millis(ms);
      std::uint64_t ended = 0;
      for (std::uint64_t i = 0; i < streams; ++i) {
        meter.gap(now, from_millis(ms + jitter_ms * (rng.exponential() - 1)), streams);
        if (rng.uniform() < 1 / length) ++ended;
      }
      for (std::uint64_t i = 0; i < prompts; ++i) meter.first_token(now, streams + i);
      streams = streams - ended + prompts;
    }
  }
};

TEST(TokenPace, TellsWhatOneMoreStreamAddsApartFromPrompts) {
  Engine engine;
  engine.run(200);
  const auto pace = engine.meter.at(engine.now);
  ASSERT_TRUE(pace);
  EXPECT_NEAR(pace->per_stream_ms, 0.3, 1e-4);
  EXPECT_LT(pace->error_ms, 1e-4);
  EXPECT_GT(pace->gap_ms, 8);
}

TEST(TokenPace, AnIterationCountsAsTheGapsOfItsStreams) {
  TokenPaceMeter one(kWindow), each(kWindow);
  Rng rng(1);
  MonoTime now;
  while (to_seconds(now) < 150) {
    const std::uint64_t streams = 1 + rng.below(20);
    const Duration gap = from_millis(8 + 0.3 * static_cast<double>(streams) + rng.uniform());
    now += gap;
    one.iteration(now, gap, streams);
    for (std::uint64_t i = 0; i < streams; ++i) each.gap(now, gap, streams);
  }
  ASSERT_TRUE(one.at(now) && each.at(now));
  EXPECT_NEAR(one.at(now)->gap_ms, each.at(now)->gap_ms, 0.1);
  EXPECT_NEAR(one.at(now)->per_stream_ms, each.at(now)->per_stream_ms, 0.02);
}

TEST(TokenPace, ALoadThatGrowsDoesNotPassForThePriceOfAStream) {
  Engine engine;
  engine.per_stream_ms = 0.1, engine.per_prompt_ms = 40;
  for (int i = 1; i <= 120; ++i) {
    engine.rate_per_s = 1 + 0.04 * i;
    engine.run(i);
  }
  const auto pace = engine.meter.at(engine.now);
  ASSERT_TRUE(pace);
  EXPECT_NEAR(pace->per_stream_ms, 0.1, 1e-4);
}

TEST(TokenPace, JitterOfTheNetworkIsNoiseAndNotABias) {
  Engine engine;
  engine.jitter_ms = 20;
  engine.run(400);
  const auto pace = engine.meter.at(engine.now);
  ASSERT_TRUE(pace);
  EXPECT_NEAR(pace->per_stream_ms, 0.3, 3 * pace->error_ms);
  EXPECT_LT(pace->error_ms, 0.1);
}

TEST(TokenPace, TheErrorIsThatOfRepeatedWindows) {
  double square = 0, said = 0;
  constexpr int kRepeats = 40;
  for (int i = 0; i < kRepeats; ++i) {
    Engine engine;
    engine.rng = Rng(static_cast<std::uint64_t>(i));
    engine.jitter_ms = 30;
    engine.run(150);
    const auto pace = engine.meter.at(engine.now);
    ASSERT_TRUE(pace);
    square += (pace->per_stream_ms - 0.3) * (pace->per_stream_ms - 0.3);
    said += pace->error_ms * pace->error_ms;
  }
  const double ratio = std::sqrt(said / square);
  EXPECT_GT(ratio, 0.6);
  EXPECT_LT(ratio, 1.7);
}

TEST(TokenPace, ABatchThatNeverChangesTellsNothing) {
  TokenPaceMeter meter(kWindow);
  MonoTime now;
  for (int i = 0; i < 20'000; ++i) {
    now += std::chrono::milliseconds(10);
    for (int stream = 0; stream < 4; ++stream) meter.gap(now, std::chrono::milliseconds(10), 4);
  }
  EXPECT_FALSE(meter.at(now));
}

TEST(TokenPace, NothingIsKnownBeforeHalfOfTheWindowNorAfterIt) {
  Engine engine;
  engine.run(40);
  EXPECT_FALSE(engine.meter.at(engine.now));
  engine.run(120);
  EXPECT_TRUE(engine.meter.at(engine.now));
  EXPECT_FALSE(engine.meter.at(engine.now + kWindow));
}

TEST(TokenPace, ExtremeGapsGiveNothingThatIsNotANumber) {
  TokenPaceMeter meter(kWindow);
  MonoTime now;
  Rng rng(1);
  for (int i = 0; i < 5'000; ++i) {
    now += from_seconds(rng.exponential());
    const bool long_gap = rng.uniform() < 0.5;
    meter.gap(now, long_gap ? Duration::max() : Duration(0), rng.next_u64() >> rng.below(64));
    meter.first_token(now, rng.below(2));
    if (const auto pace = meter.at(now)) {
      EXPECT_TRUE(std::isfinite(pace->gap_ms) && std::isfinite(pace->per_stream_ms) &&
                  std::isfinite(pace->error_ms));
    }
  }
}

}  // namespace
}  // namespace tailrace
