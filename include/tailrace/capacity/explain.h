// Why this many replicas?
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tailrace/capacity/analysis.h"
#include "tailrace/capacity/decision.h"

namespace tailrace::capacity {

/// Another way to add what a decision adds.
struct Alternative {
  std::string variant;
  std::int64_t replicas = 0;         ///< that would do the same; 0 where that is unknown
  std::optional<double> cost_ratio;  ///< of the cost of what was chosen
  std::string text;                  ///< "4 replicas of a100: 1.7 times the cost"
};
/// The other variants of the same role, in the order of the analysis; none where the decision does
/// not grow.
std::vector<Alternative> alternatives(const ModelAnalysis& model, const Decision& decision);

/// For people: short sentences, a line each. `decisions` are this model's.
std::string explain(const ModelAnalysis& model, std::span<const Decision> decisions);

/// The same for programs: one JSON document. Unknown is null.
std::string explain_json(const ModelAnalysis& model, std::span<const Decision> decisions);

}  // namespace tailrace::capacity
