// One model while the optimizer works on it: its pools, and how far its targets have got.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tailrace/capacity/analysis.h"
#include "tailrace/capacity/decision.h"
#include "tailrace/capacity/optimizer.h"

namespace tailrace::capacity {

/// The variants that serve one need: a role's, or all of a model without roles.
struct Pool {
  std::string name;      ///< "prefill"; empty for a model without roles
  RoleNeed need;         ///< finite, not negative
  double remaining = 0;  ///< of need.required_per_s
  std::vector<std::size_t> members;
};

struct Plan {
  const ModelAnalysis* model = nullptr;
  std::vector<Pool> pools;
  std::vector<std::int64_t> start, target;  ///< by variant
  std::vector<std::string> note;            ///< by variant: why, where that is not its pool's need
  std::string held;                         ///< why nothing may change
  std::string waits_for;
  bool settled = false;  ///< by rescale_pools(): its targets stand

  explicit Plan(const ModelAnalysis& analysis, const OptimizerConfig& config);

  const VariantCapacity& variant(std::size_t i) const { return model->variants[i]; }
  /// Its capacity may be counted on.
  bool sized(std::size_t i) const;
  /// Cost of one replica; what is no number counts as dearest.
  double cost(std::size_t i) const;
  /// How many more `max` allows.
  std::int64_t headroom(std::size_t i) const;
  std::int64_t min(std::size_t i) const;
  bool needs_more() const;
};

/// Adds replicas until `share` of what each pool still needs is there: in every pool the variant of
/// lowest cost per request/s, all pools by the same fraction. Stops where a pool has no variant
/// with room left, or `limits` no GPUs. Returns how many replicas were added.
std::int64_t grow(Plan& plan, double share, GpuLimits* limits);

/// Gives back what is to spare.
void shrink(Plan& plan, ShrinkRule rule);

/// What the plan changes, as decisions with their steps.
std::vector<Decision> decisions_of(const Plan& plan);

}  // namespace tailrace::capacity
