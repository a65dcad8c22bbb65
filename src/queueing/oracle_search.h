// Up to which rate does the simulated replica keep its targets, where the formula cannot say?
#pragma once

#include <optional>
#include <vector>

#include "queueing/rate_search.h"
#include "tailrace/core/result.h"

namespace tailrace::queueing {

/// A rate that the oracle was asked about.
struct Probe {
  double rate = 0;
  Latency latency;
  bool holds = false;                           ///< stable, and every target kept
  double tightest = 0;                          ///< the largest latency over its target
  SizingLimit limit = SizingLimit::kStability;  ///< whose that is
};

/// From the formula's rate on: the simulator's answers correct the formula, which proposes the next
/// rate, until the tightest target is met to 1 % or after eight simulations. The best rate that
/// held; empty where none did, or where the oracle cannot say (kUnsupported). Errors: its others.
Result<std::optional<Probe>> search_with_oracle(const ServiceModel& model, const Workload& workload,
                                                const std::vector<Target>& targets,
                                                double formula_rate, RateSearch& formula);

}  // namespace tailrace::queueing
