// What did each series say lately, and by how much did a counter rise?
//
// A SeriesHistory remembers for each series the points of one window before its newest, and one
// point before those, so that a rate covers the whole window. What it holds does not depend on the
// order in which points came nor on how they were split into fetches. Memory is bounded by the
// limits. No clock, one thread.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tailrace/observe/series.h"

namespace tailrace::observe {

/// A double counts no further than this: one more makes no difference.
inline constexpr double kCountMost = 9'007'199'254'740'992;  // 2^53

struct HistoryLimits {
  double window_s = 60;
  /// A point further in the future than this is not believed.
  double future_s = 60;
  std::size_t series_max = 1'000'000;
  std::size_t points_max = 1'000;  ///< for each series; older ones go first
};

/// What one series said. Points are finite and by strictly rising time.
struct Track {
  std::vector<Point> points;
  /// Its newest point that was NaN or infinite, or a count that none can have.
  std::optional<double> no_number_s;
  /// Of the oldest point ever; it is remembered for longer than the point.
  double first_s = HUGE_VAL;
  /// The newest point that says its process began anew: a count fell, a start changed.
  double began_s = -HUGE_VAL;

  /// Of the newest point, whatever it said. −infinity without points.
  double newest_s() const;
  /// The newest point is a number.
  bool says_number() const;
};

/// What was odd about points that came; subjects are examples.
struct HistoryNotes {
  std::size_t refused = 0;      ///< points of series beyond series_max
  std::size_t contradicts = 0;  ///< another value for a time that is known already
  std::string contradicts_subject;
  std::size_t negative = 0;  ///< counts below 0, which are not believed
  std::string negative_subject;
  std::size_t beyond = 0;  ///< counts above kCountMost, which are not believed
  std::string beyond_subject;
  std::size_t no_number = 0;  ///< NaN or infinite
  std::string no_number_subject;
  std::size_t future = 0;  ///< not believed
  double ahead_s = 0;      ///< by how much the farthest point was in the future
  std::string ahead_subject;
};

class SeriesHistory {
 public:
  explicit SeriesHistory(const HistoryLimits& limits) : limits_(limits) {}

  void add(const Series& series, double now_s, HistoryNotes& notes);
  /// Forgets series whose newest point is older, but for those that `keep` says yes to.
  void forget_before(double time_s,
                     const std::function<bool(const SeriesKey&, const Track&)>& keep = {});
  const std::map<SeriesKey, Track>& tracks() const { return tracks_; }

 private:
  void trim(const SeriesKey& key, Track& track) const;

  HistoryLimits limits_;
  std::map<SeriesKey, Track> tracks_;
};

/// The points after the last gap that is longer than `gap_s`: nobody knows what happened inside it.
std::span<const Point> after_gap(std::span<const Point> points, double gap_s);

/// The last point at `time_s` or before it.
std::optional<double> value_at(std::span<const Point> points, double time_s);

/// Did the process that `starts` tells of (process_start_time_seconds) begin anew between two
/// times?
bool restarted(std::span<const Point> starts, double from_s, double to_s);

struct Increase {
  double amount = 0;  ///< ≥ 0
  double from_s = 0, to_s = 0;
  std::vector<double> resets_s;  ///< first points after a fresh start

  double seconds() const { return to_s - from_s; }
  double per_s() const { return amount / seconds(); }
};

/// By how much a counter rose from the first to the last of its points, across restarts: after one
/// it counts from 0. Nothing is added for the time before the first or after the last point.
/// Negative points are no counts. Empty for fewer than two points: nobody knows yet.
std::optional<Increase> increase_of(std::span<const Point> points, std::span<const Point> starts);

}  // namespace tailrace::observe
