// A replica that behaves exactly like the published chain: what it reports carries no model error.
#pragma once

#include <vector>

#include "tailrace/queueing/service_model.h"
#include "tailrace/tune/observation.h"

namespace tailrace::tune::testing {

struct ChainServer {
  queueing::IterationModel truth;
  double input = 0, output = 0;
  std::int64_t max_batch = 256;

  /// Qwen2.5-14B on an H100, Llama-3.1-8B on an H100, and the granite sample of a simulator.
  static ChainServer qwen14b();
  static ChainServer llama8b();
  static ChainServer granite();

  queueing::ServiceLimits limits() const;
  /// Requests per second at which the specification's rho (9.3) has this value.
  double rate_at(double rho) const;
  /// The specification's saturation rate: where rho is 1.
  double saturation_rate(const queueing::IterationModel& model) const;
  /// One pod's report at that rho; TTFT as the filter counts it (wait and prefill).
  Observation at(double rho, double time_s) const;
};

std::vector<double> constant_load(double rho, std::size_t cycles);
/// 0.02 to 0.70 in 81 cycles, both included.
std::vector<double> ramp_load();
/// 0.1 to 0.6 in ten equal steps, both included, eight times.
std::vector<double> sawtooth_load();

}  // namespace tailrace::tune::testing
