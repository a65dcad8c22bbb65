// How many GPUs may still be taken, and which growth fits into them?
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "tailrace/capacity/analysis.h"
#include "tailrace/capacity/decision.h"

namespace tailrace::capacity {

/// GPUs that may still be taken, per accelerator: −1 (or any negative number) is unlimited, an
/// accelerator that is not named gets none. Replicas on their way have theirs already.
struct GpuLimits {
  std::map<std::string, std::int64_t> available = {};
  /// A second budget: namespace → accelerator. A namespace that is not named has no quota; one that
  /// is, gets nothing of an accelerator that its quota does not name.
  std::map<std::string, std::map<std::string, std::int64_t>> quota = {};

  std::int64_t left(const std::string& ns, const std::string& accelerator) const;
  /// Whole replicas of `gpus` GPUs that still fit.
  std::int64_t replicas(const std::string& ns, const std::string& accelerator, int gpus) const;
  void take(const std::string& ns, const std::string& accelerator, int gpus, std::int64_t replicas);
};

/// The tighter of `total` (empty: nobody has counted) and what a cluster's nodes have, by kind. A
/// kind of which there is no node is not cut by nodes: its name may be another one there.
GpuLimits within_nodes(std::optional<GpuLimits> total,
                       const std::map<std::string, std::int64_t>& node_gpus,
                       std::span<const ModelAnalysis> models);

/// What `total` leaves free beside the replicas of `models`, pending ones included.
GpuLimits free_gpus(GpuLimits total, std::span<const ModelAnalysis> models);

/// Cuts growth that does not fit into `limits`, in the order of spare (least first), cost, name.
/// What shrinks in the same cycle frees nothing yet. Growth up to a variant's minimum comes first
/// and is never cut: a minimum is the operator's word. `decisions` as optimize() made them of
/// `models`.
void limit_growth(std::span<const ModelAnalysis> models, GpuLimits limits,
                  std::span<Decision> decisions);

}  // namespace tailrace::capacity
