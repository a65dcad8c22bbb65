// How many requests per second will there be when a replica that is ordered now can serve?
//
// A line through the arrivals of the last cycles, as many of them as one line explains; its slope
// counts as far as it stands out from chance. Arrivals are taken to come at random, so what a
// count may be off by is known, and more where they come in bursts. One cycle that is far off the
// others is cut, and said: it moves nothing until the next one confirms it. No clock; bounded
// memory. One thread.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>

namespace tailrace::capacity {

/// Requests that arrived in the last `window_s` seconds: before any queue, whether or not a replica
/// was there for them.
struct Arrivals {
  double per_s = 0;
  double window_s = 0;
};

/// Requests per second.
struct Forecast {
  double now = 0;     ///< without chance
  double ahead = 0;   ///< at the horizon
  double sd = 0;      ///< standard error of `ahead`
  double demand = 0;  ///< to be ready for: the larger of the two and a margin
  double horizon_s = 0;
  std::string note;  ///< what was cut or bounded; empty: nothing
};

class DemandHistory {
 public:
  /// `now_s` does not decrease; anything but a rate ≥ 0 over a window > 0 is left out.
  void add(double now_s, const Arrivals& arrivals);
  /// In horizon_s + one cycle; `margin_sd`: standard errors that are added. Nothing before the
  /// first cycle.
  std::optional<Forecast> ahead(double horizon_s, double margin_sd) const;

  struct Sample {
    double at_s = 0;  ///< middle of its window
    double rate = 0;
    double length_s = 0;  ///< that it counts for, without overlap
  };
  /// All that it goes on from.
  struct Memory {
    std::deque<Sample> samples;
    double now_s = 0;
    std::string cut;  ///< of the newest sample
  };
  const Memory& memory() const { return memory_; }
  void restore(Memory memory) { memory_ = std::move(memory); }

 private:
  struct Line {
    double at_s = 0, rate = 0, slope = 0;  ///< the middle of its samples
    double rate_variance = 0, slope_variance = 0;
  };
  std::optional<Line> line_through(std::size_t samples) const;
  Line line() const;

  Memory memory_;
};

}  // namespace tailrace::capacity
