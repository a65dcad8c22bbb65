// Which replicas are the latency formulas held against, and what does the simulator say of them?
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tailrace/queueing/service_model.h"
#include "tailrace/queueing/sizing.h"
#include "tailrace/simulate/replica_run.h"

namespace tailrace::accuracy {

enum class Law { kFixed, kLogT };  ///< of answers; log-t: CV 1.81

struct Case {
  std::string name;
  queueing::IterationModel iteration;
  queueing::ServiceLimits limits;
  double input = 512, output = 128;  ///< mean tokens
  Law law = Law::kFixed;
  double input_cv = 0;
  double prefix_hit = 0;
  /// Of all requests the published semantics count one iteration more than tokens.
  queueing::Iterations iterations = queueing::Iterations::kOutputPlusOne;
  double ttft_target_ms = 0, itl_target_ms = 0;  ///< of means; 0: not sized
  bool own = false;                              ///< not a row of the published table
};

/// The published grid of means and percentiles, and engine presets with their limits.
std::vector<Case> grid_cases();
/// The published table of capacities, and rows of our own.
std::vector<Case> capacity_cases();

queueing::ServiceModel model_of(const Case& c, queueing::Mode mode);
/// With the moments of the lengths that the simulator draws from.
queueing::Workload workload_of(const Case& c, double rate_per_s);

/// The emulated engine under independent requests.
simulate::ReplicaSpec replica_of(const Case& c, std::uint64_t seed, std::size_t requests);

/// A number from the simulator with its standard error.
struct Measured {
  double value = 0, error = 0;
};

/// Where the line grows for ever.
Measured largest_rate(const Case& c, std::size_t requests);
/// Mean and standard error of the largest rates that keep the case's targets, one a seed.
Measured capacity(const Case& c, double limit_per_s, int seeds, std::size_t requests);

}  // namespace tailrace::accuracy
