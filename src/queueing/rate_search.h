// Up to which rate does a formula keep one latency target?
#pragma once

#include <optional>
#include <vector>

#include "queueing/modes.h"
#include "tailrace/queueing/sizing.h"

namespace tailrace::queueing {

struct Target {
  SizingLimit limit;  ///< of what: kTtft, kItl or kE2e
  double ms;          ///< > 0
  Statistic statistic = Statistic::kMean;
};

/// What of `at` a target binds, in milliseconds; infinite where it is unknown.
double value_of(const Latency& at, SizingLimit limit, Statistic statistic);

/// Searches one model and workload for several targets in turn, those that it was made for or such
/// as differ from them in their milliseconds only. It remembers every point it asked
/// for, so the search for one target narrows the next one's. Callers have checked the arguments.
class RateSearch {
 public:
  RateSearch(const ServiceModel& model, const Workload& workload,
             const std::vector<Target>& targets);

  double low() const { return low_; }
  double high() const { return high_; }
  Latency at(double rate);
  double value(double rate, const Target& target);

  /// The largest rate from low() to high() at which the target holds, to ten digits (percentiles:
  /// to 0.4 %); empty where none does. Latencies grow with the rate.
  std::optional<double> largest(const Target& target);

  /// The same below a rate at which the target is missed; low() where nothing better is found.
  double largest_below(double missed, const Target& target);

 private:
  struct Point {
    double rate;
    Latency latency;  ///< percentiles where a target asked for them, perhaps those only it binds
  };

  static bool knows(const Latency& at, const Target& target);
  Latency ask(double rate, Detail detail, const WhichPercentiles& which);
  double headroom(double rate, const Target& target);
  double mean(double rate, const Target& target);
  double published_root(const Target& target, double good, double bad);
  double root(const Target& target, double good, double bad);
  double first_token_root(const Target& target, double good, double bad);

  ServiceModel model_;
  Workload workload_;
  std::optional<Corrected> corrected_;  ///< where that is the mode
  Detail detail_ = Detail::kMeans;
  WhichPercentiles first_, gaps_;  ///< that targets of TTFT and E2E, and of ITL, bind
  double low_ = 0, high_ = 0;
  std::vector<Point> points_;
};

}  // namespace tailrace::queueing
