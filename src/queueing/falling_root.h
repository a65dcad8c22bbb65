// Where does a function that falls reach 0, when every call counts?
//
// What targets leave of latencies over the rate: nearly straight at best, with bends, steps and
// noise at worst.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

namespace tailrace::queueing {

struct Sample {
  double at = HUGE_VAL, value = HUGE_VAL;
};

/// The samples nearest to 0, the nearest first.
class NearestSamples {
 public:
  void add(Sample sample) {
    for (Sample& other : nearest_) {
      if (sample.at == other.at && sample.value == other.value) return;
      if (std::abs(sample.value) < std::abs(other.value)) std::swap(sample, other);
    }
  }
  const Sample& first() const { return nearest_[0]; }
  const Sample& second() const { return nearest_[1]; }
  /// `other`, or whichever of these is closer to `sample`.
  Sample closest_to(const Sample& sample, Sample other) const {
    for (const Sample& one : nearest_) {
      const double apart = std::abs(one.at - sample.at);
      if (apart > 0 && apart < std::abs(other.at - sample.at)) other = one;
    }
    return other;
  }

  /// Where the parabola of `at` over `value` through three, or the line through two, reaches 0,
  /// `before` less: the first that lies within the ends; else the middle of them.
  double root(double low, double high, double before) const {
    const auto& [a, b, c] = nearest_;
    const auto within = [&](double x) { return x > low && x < high; };
    const double over_ab = (b.at - a.at) / (b.value - a.value);
    const double line = a.at - a.value * over_ab - before;
    const double over_ac = (c.at - a.at) / (c.value - a.value);
    const double bend = (over_ac - over_ab) / (c.value - b.value);
    const double parabola = line + a.value * b.value * bend;
    return within(parabola) ? parabola : within(line) ? line : low + (high - low) / 2;
  }

 private:
  std::array<Sample, 3> nearest_;
};

/// From `good`, where it is at least 0, to `bad`, where it is below: a place where it is at least 0
/// and, by its slope there, at most `tolerance` (of the place, or of `least`) before the root.
/// `known`: both and others.
template <typename Function>
double falling_root(const Function& function, Sample good, Sample bad, NearestSamples known,
                    double tolerance, double least) {
  constexpr int kStepsMax = 200, kSlowStepsMax = 2;
  /// Where steps leave more than this of the value, now and then one halves the bracket.
  constexpr double kProgress = 0.4;
  /// Slopes are known between samples so near.
  const double close = std::max(1e-3, 10 * tolerance);
  int slow = 0;
  double left = std::abs(known.first().value);
  for (int step = 0; step < kStepsMax; ++step) {
    const double enough = tolerance * std::max(good.at, least);
    if (!(bad.at - good.at > enough)) break;
    const Sample closest = known.closest_to(good, bad);
    const double apart = std::abs(closest.at - good.at);
    const double slope = std::abs(closest.value - good.value) / apart;
    if (good.value <= slope * enough && apart <= close * std::max(good.at, least)) break;
    // Rather before the root than behind it.
    const double next = slow < kSlowStepsMax ? known.root(good.at, bad.at, enough / 2)
                                             : good.at + (bad.at - good.at) / 2;
    if (!(next > good.at && next < bad.at)) break;
    const Sample found{next, function(next)};
    slow = slow < kSlowStepsMax && std::abs(found.value) > kProgress * left ? slow + 1 : 0;
    left = std::min(left, std::abs(found.value));
    known.add(found);
    (found.value >= 0 ? good : bad) = found;
  }
  return good.at;
}

}  // namespace tailrace::queueing
