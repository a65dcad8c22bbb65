// Golden traces: what is recommended, what is there, what comes out.
#include "tailrace/capacity/stabilisation.h"

#include <gtest/gtest.h>

#include <limits>

#include "capacity/support/models.h"

namespace tailrace::capacity {
namespace {

Decision recommended(std::int64_t observed, std::int64_t desired, bool informed = true) {
  Decision d = testing::decision("a", observed, desired);
  d.informed = informed;
  return d;
}

struct Moment {
  double time_s;
  std::int64_t observed, recommended, expected;
};

void follow(StabilisationConfig config, const std::vector<Moment>& trace) {
  ASSERT_TRUE(config.check());
  Stabiliser stabiliser(config);
  for (const Moment& m : trace) {
    Decision d = recommended(m.observed, m.recommended);
    stabiliser.apply(m.time_s, {&d, 1});
    EXPECT_EQ(d.desired, m.expected) << "at " << m.time_s << " s";
  }
}

constexpr StepCap kAnyStep{.pods = std::nullopt, .percent = std::nullopt, .period_s = 60};
constexpr StabilisationConfig kWindowsOnly{
    .down_window_s = 300, .up_window_s = 0, .up = kAnyStep, .down = kAnyStep};

TEST(Stabilisation, GrowsAtOnceAndShrinksToTheLargestRecommendationOfTheWindow) {
  follow(kWindowsOnly, {{0, 5, 8, 8},
                        {60, 8, 3, 8},  // 8 was recommended 60 s ago
                        {120, 8, 5, 8},
                        {299, 8, 4, 8},
                        {300, 8, 3, 5},  // the 8 is 300 s old; 5 at 120 s is the largest left
                        {419, 5, 3, 5},
                        {420, 5, 3, 4},  // 4 at 299 s
                        {599, 4, 2, 3},
                        {720, 3, 2, 2}});
}

TEST(Stabilisation, IsAWindowOverRecommendationsNotAPauseAfterAChange) {
  // The replicas grew 10 s ago, but nothing above 4 was recommended for 300 s.
  follow(kWindowsOnly, {{0, 4, 4, 4},
                        {100, 4, 4, 4},
                        {200, 4, 4, 4},
                        {290, 4, 4, 4},
                        {300, 9, 4, 4}});  // somebody else raised them to 9
}

TEST(Stabilisation, ALowRecommendationInBetweenChangesNothing) {
  follow(kWindowsOnly,
         {{0, 6, 6, 6}, {30, 6, 1, 6}, {60, 6, 6, 6}, {330, 6, 1, 6}, {360, 6, 1, 1}});
}

TEST(Stabilisation, AnUpWindowTakesTheSmallestRecommendation) {
  StabilisationConfig config = kWindowsOnly;
  config.up_window_s = 60;
  follow(config, {{0, 2, 2, 2},
                  {30, 2, 6, 2},  // 2 was recommended 30 s ago
                  {60, 2, 5, 5},  // 2 is 60 s old; 6 and 5 are left
                  {90, 5, 9, 5},  // not above the 5 of 60 s
                  {120, 5, 9, 9}});
}

TEST(Stabilisation, AFirstSightIsTakenToHaveBeenRecommended) {
  follow(kWindowsOnly, {{1000, 7, 2, 7}, {1299, 7, 2, 7}, {1300, 7, 2, 2}});
}

TEST(Stabilisation, AHeldDecisionRecommendsNothing) {
  Stabiliser stabiliser(kWindowsOnly);
  const auto at = [&stabiliser](double time_s, Decision d) {
    stabiliser.apply(time_s, {&d, 1});
    return d.desired;
  };
  EXPECT_EQ(at(0, recommended(5, 2)), 5);
  EXPECT_EQ(at(150, recommended(5, 5, false)), 5) << "metrics were lost for a cycle";
  EXPECT_EQ(at(300, recommended(5, 2)), 2) << "that cycle did not ask for 5";
}

TEST(Stabilisation, GrowsByAtMostItsCapInAPeriod) {
  StabilisationConfig config = kWindowsOnly;
  config.up = {.pods = 4, .percent = 100, .period_s = 60};
  follow(config, {{0, 2, 100, 6},   // 4 pods are more than 100 %
                  {30, 6, 100, 6},  // all of this minute's growth is there
                  {59, 6, 100, 6},
                  {90, 6, 100, 12},  // 100 % of 6
                  {120, 12, 100, 12},
                  {150, 12, 100, 12},  // seen 30 s ago
                  {180, 12, 100, 24}});
}

TEST(Stabilisation, CapsCountWhatIsObservedNotWhatWasDecided) {
  StabilisationConfig config = kWindowsOnly;
  config.up = {.pods = 2, .percent = std::nullopt, .period_s = 60};
  follow(config, {{0, 2, 9, 4},
                  {10, 2, 9, 4},  // nothing has happened yet: the same, not two more
                  {20, 4, 9, 4},
                  {30, 9, 20, 9},  // somebody else took more than the cap allows
                  {90, 9, 20, 11}});
}

TEST(Stabilisation, ShrinksByAtMostItsCapInAPeriod) {
  StabilisationConfig config = kWindowsOnly;
  config.down_window_s = 0;
  config.down = {.pods = std::nullopt, .percent = 50, .period_s = 60};
  follow(
      config,
      {{0, 9, 1, 4}, {30, 4, 1, 4}, {60, 4, 1, 4}, {90, 4, 1, 2}, {150, 2, 1, 2}, {210, 2, 1, 1}});
}

TEST(Stabilisation, ACapOfZeroForbids) {
  StabilisationConfig config = kWindowsOnly;
  config.up = {.pods = 0, .percent = std::nullopt, .period_s = 60};
  follow(config, {{0, 2, 9, 2}, {1000, 2, 9, 2}});
}

TEST(Stabilisation, APercentageOfAFewIsAtLeastOne) {
  StabilisationConfig config = kWindowsOnly;
  config.up = {.pods = std::nullopt, .percent = 10, .period_s = 60};
  follow(config, {{0, 0, 9, 1}, {60, 1, 9, 1}, {120, 1, 9, 2}});
}

TEST(Stabilisation, SaysWhatItWaitsFor) {
  Stabiliser stabiliser(kWindowsOnly);
  Decision d = recommended(8, 8);
  stabiliser.apply(0, {&d, 1});
  d = recommended(8, 3);
  stabiliser.apply(120, {&d, 1});
  EXPECT_EQ(d.action, Action::kHold);
  EXPECT_EQ(d.steps.back().rule, "down window");
  EXPECT_EQ(d.waits_for, "180 s of the down window: 8 replicas were recommended 120 s ago");
}

TEST(Stabilisation, VariantsHaveTheirOwnHistory) {
  Stabiliser stabiliser(kWindowsOnly);
  std::vector<Decision> two{recommended(8, 8), recommended(4, 2)};
  two[1].variant = "b";
  stabiliser.apply(0, two);
  two = {recommended(8, 3), recommended(4, 2)};
  two[1].variant = "b";
  stabiliser.apply(300, two);
  EXPECT_EQ(two[0].desired, 3);
  EXPECT_EQ(two[1].desired, 2);
}

TEST(Stabilisation, ATimeThatGoesBackOrIsNoNumberStandsStill) {
  follow(kWindowsOnly, {{1000, 8, 8, 8},
                        {0, 8, 3, 8},
                        {std::numeric_limits<double>::quiet_NaN(), 8, 3, 8},
                        {1300, 8, 3, 3}});
}

TEST(Stabilisation, KeepsABoundedHistoryAndStaysCareful) {
  Stabiliser stabiliser(kWindowsOnly);
  for (int i = 0; i < 5000; ++i) {
    Decision d = recommended(6000, 6000 - i);
    stabiliser.apply(0.01 * i, {&d, 1});
    EXPECT_EQ(d.desired, 6000);
  }
}

TEST(Stabilisation, RefusesWhatMakesNoSenseInWords) {
  const auto refused = [](const StabilisationConfig& config, const std::string& message) {
    const auto result = config.check();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message, message);
  };
  StabilisationConfig config;
  config.down_window_s = -1;
  refused(config, "down_window_s is -1; use 0 to 86400 s");
  config = {};
  config.up_window_s = std::numeric_limits<double>::infinity();
  refused(config, "up_window_s is inf; use 0 to 86400 s");
  config = {};
  config.up.pods = -3;
  refused(config, "up.pods is -3; use 0 or more");
  config = {};
  config.down.percent = -0.5;
  refused(config, "down.percent is -0.5; use 0 or more");
  config = {};
  config.down.period_s = 0;
  refused(config, "down.period_s is 0; use above 0 up to 86400 s");
  EXPECT_TRUE(StabilisationConfig{}.check());
}

}  // namespace
}  // namespace tailrace::capacity
