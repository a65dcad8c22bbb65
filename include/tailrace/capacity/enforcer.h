// What does the operator allow, whatever the numbers say: minimum, maximum, scale to zero?
#pragma once

#include <optional>
#include <span>

#include "tailrace/capacity/analysis.h"
#include "tailrace/capacity/decision.h"
#include "tailrace/capacity/defaults.h"

namespace tailrace::capacity {

/// Errors: kInvalidArgument for a negative minimum or maximum and for min > max, naming the
/// variant.
Result<void> check_bounds(const Variant& variant);

/// What scale to zero needs to know of one model.
struct ZeroEvidence {
  bool enabled = false;
  double retention_s = kDefaultRetentionSeconds;
  std::optional<double> requests = std::nullopt;  ///< served over the retention; empty: unknown
  std::optional<double> waiting = std::nullopt;   ///< wait at the gateway now; empty: unknown
};

/// Bounds for each variant, then for the model: where scale to zero is enabled and every minimum is
/// 0, no request over the retention and none that waits mean 0 replicas; an unknown count changes
/// nothing. A model without a replica gets 1 of its cheapest variant (cost ≤ 0 counts as 10, ties
/// by name) where scale to zero is off or a request waits. An inactive model is left as it is.
/// `decisions` are this model's, in the order of its variants.
void enforce(const ModelAnalysis& model, const ZeroEvidence& zero, std::span<Decision> decisions);

}  // namespace tailrace::capacity
