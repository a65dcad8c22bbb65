// What do the series of one process come to: a rate, a level, a mean, a quantile?
//
// A Meter reads an exporter's series over its window. Of several names for a quantity the first
// that gives a number counts. Each answer has its age and its series' name, or the reason why there
// is none; a single point of a counter gives none yet. Nothing is ever NaN, infinite or negative.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "observe/engine_tables.h"
#include "observe/exporters.h"

namespace tailrace::observe {

struct MeterConfig {
  double now_s = 0;
  double window_s = 60;
  double gap_s = 150;  ///< between two points of a series, so that they tell what was between them
};

/// Per second; how much it rose and over how long.
struct Rise {
  double per_s = 0, amount = 0, newest_s = 0, from_s = 0;
  std::vector<double> resets_s;
  std::string metric;
};

class Meter {
 public:
  /// Series that `wanted` says no to count as not there: those of other models.
  Meter(const Exporter& exporter, const MeterConfig& config,
        std::function<bool(const Said&)> wanted)
      : exporter_(exporter), config_(config), wanted_(std::move(wanted)) {}

  // Counters.
  std::optional<Rise> rise(const Counter& counter) const;
  Measured rate(std::span<const Counter> choices) const;  ///< per second
  std::vector<double> resets(std::span<const Counter> choices) const;

  // Levels.
  /// Numbers above `most` are not believed.
  Measured mean_level(std::span<const Gauge> choices, double most) const;  ///< over the window
  /// Sum of an exporter's series.
  Measured newest_level(std::span<const Gauge> choices, double most) const;
  /// `sum` false: the mean of several (engines of one process), for shares.
  Measured level(std::span<const Level> choices, bool sum) const;
  Measured share(std::span<const Share> choices) const;
  /// By how much the sum of two levels rose per second over the window. At each of `resets_s` it
  /// starts from 0: what was there went with the process. Empty: nobody knows yet.
  std::optional<double> growth_per_s(std::span<const Gauge> one, std::span<const Gauge> other,
                                     std::span<const double> resets_s) const;

  // Means over what happened in the window.
  /// `requests_per_s` and `waiting` (mean) where a choice needs them.
  Measured mean(std::span<const Mean> choices, const Measured& requests_per_s,
                const Measured& waiting) const;
  Measured quantile(std::span<const Mean> choices, double q) const;
  std::vector<LengthBucket> buckets(std::span<const Mean> choices) const;

  double age_s(double time_s) const;

  /// A series of the counter or level that was there and is not said any more, though its process
  /// goes on and did not begin anew: the sum of the others is not the whole. Null: there is none.
  const Said* gone(std::string_view name, const OnlyWhere& only) const;
  /// The first such series among the choices, as its exporter writes it; empty: there is none.
  template <class Choices>
  std::string gone_among(const Choices& choices) const {
    for (const auto& one : choices) {
      if (const Said* part = gone(one.name, one.only)) return text_of(one.name, *part);
    }
    return {};
  }

 private:
  static std::string text_of(std::string_view name, const Said& said);
  bool over(const Said& said) const;
  std::vector<const Said*> series(std::string_view name, const OnlyWhere& only) const;
  std::vector<Point> levels(const Gauge& gauge) const;
  Measured newest(const Gauge& gauge, bool sum) const;
  Measured one(const Histogram& h) const;
  Measured one(const CounterRatio& r) const;
  Measured per_request(const Counter& total, double scale, const Measured& requests_per_s) const;
  std::vector<LengthBucket> buckets_of(const Histogram& h, double* newest_s) const;

  const Exporter& exporter_;
  MeterConfig config_;
  std::function<bool(const Said&)> wanted_;
};

}  // namespace tailrace::observe
