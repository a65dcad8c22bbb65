// Which fleet, which load and which targets is the autoscaler judged by?
//
// One scenario, fixed: a base load, a ramp to four times of it over ten minutes, a plateau, a lull.
// Two variants of different preset and cost, answers of log-t lengths. docs/autoscaler-scenario.md
// says why each number is as it is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tailrace/autoscaler/simulated_fleet.h"

namespace tailrace::scenario {

inline constexpr double kTtftMs = 2'000, kItlMs = 50;
inline constexpr double kBaseRate = 17, kPeakRate = 68;
inline constexpr double kStartupSeconds = 30, kCycleSeconds = 15;

inline constexpr autoscaler::RequestTargets kTargets{kTtftMs, kItlMs};

/// A stretch of time, in which the rate stays as it is or does not.
struct Segment {
  std::string name;
  double from_s = 0, to_s = 0;
  bool steady = false;
};
std::vector<Segment> segments();
double duration_s();
std::vector<simulate::RatePoint> profile();

/// The variants, `tp4` and `tp8`, with so many engines at the start.
std::vector<autoscaler::SimulatedVariant> variants(int tp4, int tp8);

autoscaler::SimulatedFleet fleet(std::uint64_t seed);
autoscaler::SimulatedFleet constant_fleet(double rate, double seconds, int tp4, int tp8,
                                          std::uint64_t seed);

/// The analyzer's settings, as an operator writes them.
std::string settings_text();
/// The same targets for the analyzer as published, which knows means only.
std::string published_text();
capacity::CycleConfig settings(const std::string& text);

/// What the page says before its tables.
std::string preface();

}  // namespace tailrace::scenario
