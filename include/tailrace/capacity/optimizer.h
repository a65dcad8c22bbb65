// Which variant grows, which shrinks, when a model needs more or has to spare?
//
// Pure functions over an analysis. Targets begin at the current replicas; a variant without
// capacity is left as it is, in both directions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tailrace/capacity/analysis.h"
#include "tailrace/capacity/decision.h"

namespace tailrace::capacity {

/// GPUs that may still be taken, per accelerator: −1 is unlimited, an accelerator that is not named
/// gets none. A quota of a namespace is a second budget.
struct GpuLimits {
  std::map<std::string, std::int64_t> available;
  std::map<std::string, std::map<std::string, std::int64_t>> quota;  ///< namespace → accelerator
};

enum class OptimizerKind { kCostAware, kGreedyByScore };

/// One decision per variant, in the order of the analyses. `limits` empty: no limit for the
/// cost-aware optimizer; the greedy one grants nothing (facts/queueing 2.6).
std::vector<Decision> optimize(OptimizerKind kind, std::span<const ModelAnalysis> models,
                               const std::optional<GpuLimits>& limits);

/// One claim on a budget of GPUs of one kind.
struct RescaleClaim {
  std::string id;
  double priority = 1;
  double demand = 0;       ///< GPUs
  std::int64_t floor = 0;  ///< GPUs
  std::int64_t cap = 0;    ///< GPUs
};
struct RescaleResult {
  std::map<std::string, std::int64_t> targets;
  bool over_budget = false;  ///< the floors alone exceed the budget
};
/// Floors first, the rest in proportion to priority × demand, capped at min(demand, cap) with
/// re-splitting, largest remainder, ties by id.
RescaleResult rescale_by_priority(std::int64_t budget, std::span<const RescaleClaim> claims);

}  // namespace tailrace::capacity
