// What does each mode say at one point? Callers have checked the arguments.
#pragma once

#include <optional>

#include "queueing/mixture.h"
#include "queueing/service_point.h"
#include "tailrace/queueing/service_model.h"
#include "tailrace/queueing/sizing.h"

namespace tailrace::queueing {

/// No workload has a higher rate (check()), so no limit is above it: where nothing that grows with
/// the load costs time, the largest rate would be infinite.
inline constexpr double kRateMax = 1e9;

Latency closed_form(const IterationModel& model, const Workload& workload);
Latency chain(const IterationModel& model, const ServiceLimits& limits, const Workload& workload);

/// The corrected mode of one model and workload, at any rate: what does not depend on the rate is
/// computed once.
class Corrected {
 public:
  Corrected(const ServiceModel& model, const Workload& workload);

  double max_rate_per_s() const { return limit_.per_ms * 1e3; }
  /// `which` of the percentiles, where detail asks for them.
  Latency at(double rate_per_s, Detail detail, const WhichPercentiles& which = {}) const;

 private:
  IterationModel iteration_;
  ServiceLimits limits_;
  RequestWork work_;
  RateLimit limit_;
};

/// The rate at which one latency reaches `target_ms` (specification 9.3 and 9.4, solved); empty
/// where not even an idle replica keeps it. May exceed the largest rate by rounding.
std::optional<double> closed_form_rate(const IterationModel& model, const Workload& workload,
                                       SizingLimit limit, double target_ms);

/// Where the chain's authors begin to search: a thousandth of what one request alone makes.
double chain_least_rate(const IterationModel& model, const Workload& workload);

}  // namespace tailrace::queueing
