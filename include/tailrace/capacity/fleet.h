// What holds for all models together: who chooses, which GPUs there are, how fast replicas may
// move?
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tailrace/capacity/limits.h"
#include "tailrace/capacity/optimizer.h"
#include "tailrace/capacity/stabilisation.h"
#include "tailrace/core/result.h"

namespace tailrace::capacity {

struct FleetSettings {
  OptimizerConfig optimizer;
  /// All GPUs, those in use included; quotas alike. Empty: nobody has counted them.
  std::optional<GpuLimits> total;
  bool limit_to_nodes = false;  ///< growth stops at what a cluster's nodes have, too
  /// Empty: every cycle stands for itself.
  std::optional<StabilisationConfig> stabilisation;
};

/// "H100=8": a kind and how many; -1 is any number. Errors: kInvalidArgument, to stand after the
/// text.
Result<std::pair<std::string, std::int64_t>> parse_gpus(std::string_view text);

/// For people, a line each; nothing of what is not set.
std::string explain_fleet(const FleetSettings& fleet);
/// The same for programs: one JSON document. Not set is null.
std::string explain_fleet_json(const FleetSettings& fleet);

}  // namespace tailrace::capacity
