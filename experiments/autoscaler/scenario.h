// Which fleet, which load and which targets is the autoscaler judged by?
//
// One shape, fixed: a base load, a ramp to four times of it over ten minutes, a plateau, a lull.
// Two variants of different preset and cost, answers of log-t lengths. Two sizes of it: one for the
// simulator, and one whose tokens the processes of a small machine can carry. The pages in docs/
// say why each number is as it is.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/autoscaler/simulated_fleet.h"

namespace tailrace::scenario {

inline constexpr double kTtftMs = 2'000, kItlMs = 50;
inline constexpr double kStartupSeconds = 30, kCycleSeconds = 15;

inline constexpr autoscaler::RequestTargets kTargets{kTtftMs, kItlMs};

/// How many replicas of the first and of the second variant.
struct Mix {
  int first = 0, second = 0;

  int replicas() const { return first + second; }
};

/// A stretch of time, in which the rate stays as it is or does not.
struct Segment {
  std::string name;
  double from_s = 0, to_s = 0;
  bool steady = false;
};

struct Kind {
  std::string name;
  std::string_view preset;
  double cost = 0;
  int slots = 0;
  int min = 0;
};

/// What mixes of at most kFirstMax and kSecondMax replicas carry, in requests/s.
inline constexpr int kFirstMax = 4, kSecondMax = 6;
using RateTable = std::array<std::array<double, kSecondMax + 1>, kFirstMax + 1>;

struct Scenario {
  std::array<Kind, 2> kinds;  ///< of the first at most kFirstMax replicas
  double base_rate = 0, peak_rate = 0;
  /// Of answers: the mean of ln of the typical length, the mean length, the limit.
  double length_mu = 0, length_mean = 0;
  std::int64_t length_cap = 0;
  Mix initial;                      ///< what serves when it begins
  std::array<double, 5> seconds{};  ///< of base, ramp, plateau, fall and lull
  RateTable largest_rates{};        ///< as measure_largest_rate() found them

  double largest_rate(const Mix& mix) const {
    return largest_rates[static_cast<std::size_t>(mix.first)][static_cast<std::size_t>(mix.second)];
  }

  std::vector<Segment> segments() const;
  double duration_s() const { return segments().back().to_s; }
  std::vector<simulate::RatePoint> profile() const;
  std::vector<autoscaler::SimulatedVariant> variants(const Mix& mix) const;
  autoscaler::SimulatedFleet fleet(std::uint64_t seed) const;
  autoscaler::SimulatedFleet constant_fleet(double rate, double length_s, const Mix& mix,
                                            std::uint64_t seed) const;
};

const Scenario& simulated_scenario();
const Scenario& real_scenario();

/// The analyzer's settings, as an operator writes them.
std::string settings_text();
/// The same targets for the analyzer as published, which knows means only.
std::string published_text();
capacity::CycleConfig settings(const std::string& text);

/// What the page of the simulated scenario says before its tables.
std::string preface();

}  // namespace tailrace::scenario
