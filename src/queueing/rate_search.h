// Up to which rate does a formula keep one latency target?
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "queueing/mixture.h"
#include "tailrace/queueing/sizing.h"

namespace tailrace::queueing {

struct Target {
  SizingLimit limit;  ///< of what: kTtft, kItl or kE2e
  double ms;          ///< > 0
};

/// What of `at` a target binds, in milliseconds; infinite where it is unknown.
double value_of(const Latency& at, SizingLimit limit, Statistic statistic);

/// Searches one model and workload for several targets in turn. It remembers every point it asked
/// for, so the search for one target narrows the next one's. Callers have checked the arguments.
class RateSearch {
 public:
  RateSearch(const ServiceModel& model, const Workload& workload, Statistic statistic);

  double low() const { return low_; }
  double high() const { return high_; }
  Latency at(double rate);
  double value(double rate, SizingLimit limit);

  /// The largest rate from low() to high() at which the target holds, to ten digits (percentiles:
  /// to 0.4 %); empty where none does. Latencies grow with the rate.
  std::optional<double> largest(const Target& target);

  /// The same below a rate at which the target is missed; low() where nothing better is found.
  double largest_below(double missed, const Target& target);

 private:
  struct Point {
    double rate;
    Latency
        latency;  ///< of percentiles perhaps the statistic's only, where a target asked for them
  };

  bool knows(const Latency& at, SizingLimit limit) const;
  bool is_known(double rate, SizingLimit limit) const;
  double root(const Target& target, double good, double bad);
  double percentile_root(const Target& target, double good, double bad);

  ServiceModel model_;
  Workload workload_;
  Statistic statistic_;
  Detail detail_;
  WhichPercentiles which_;
  double low_ = 0, high_ = 0;
  std::vector<Point> points_;
  std::unique_ptr<RateSearch> means_;  ///< of the same model, where the statistic is another
};

}  // namespace tailrace::queueing
