// Which variant grows, which shrinks, when a model needs more or has to spare?
//
// Pure functions over an analysis. Targets begin at current + pending replicas.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tailrace/capacity/analysis.h"
#include "tailrace/capacity/decision.h"
#include "tailrace/capacity/limits.h"

namespace tailrace::capacity {

enum class OptimizerKind {
  /// The variant with the lowest cost per request/s grows, the dearest shrinks; no limits.
  kCostAware,
  /// Models compete for the GPUs that are left, highest priority · need first. An accelerator
  /// without a limit gets none, no limits at all nothing.
  kGreedyByScore,
};
std::string_view to_string(OptimizerKind kind);  ///< "cost-aware", "greedy"
/// Errors: kInvalidArgument naming the optimizers.
Result<OptimizerKind> parse_optimizer(std::string_view text);

enum class ShrinkRule {
  /// A replica goes only where the current replicas of sized variants carry the demand without it;
  /// pending ones go first. Idle and unreachable variants shrink too; while a variant with replicas
  /// is unknown, nobody of its model does (docs/decisions/0012).
  kSafe,
  /// As published: spare is spent on the dearest variant, whoever has it and wherever the replicas
  /// that remain are; a variant without capacity stays.
  kPublished,
};

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kCostAware;
  ShrinkRule shrink = ShrinkRule::kSafe;
  /// While replicas are on their way, what only waits for capacity requests no further ones: those
  /// on their way are for it.
  bool pending_guard = true;
  /// Greedy only: redistributes a pool of one accelerator by priority · demand where more is wanted
  /// than there is (rescale.h). Takes replicas from models of lower claim.
  bool rescale = false;
};

/// One decision per variant, in the order of the analyses. Nobody gets more than `max`, and no
/// variant more than 1e9 replicas beyond what it has.
std::vector<Decision> optimize(const OptimizerConfig& config, std::span<const ModelAnalysis> models,
                               const std::optional<GpuLimits>& limits);

}  // namespace tailrace::capacity
