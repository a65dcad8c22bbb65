// How many replicas, and why?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tailrace/capacity/analysis.h"

namespace tailrace::capacity {

enum class Action { kHold, kScaleUp, kScaleDown };
std::string_view to_string(Action action);

/// One step that changed (or could have changed) a target, in the order in which they happened:
/// "optimizer: cheapest per request/s, 2 for 12.3 requests/s", "max: 5 cut to 4", ….
struct DecisionStep {
  std::string rule;
  std::string text;
  std::int64_t before = 0, after = 0;
};

struct Decision {
  ModelKey key;
  std::string variant, accelerator;
  std::int64_t desired = 0, current = 0, pending = 0;
  Action action = Action::kHold;
  std::string reason;               ///< one sentence
  std::vector<DecisionStep> steps;  ///< how `desired` came about
};

}  // namespace tailrace::capacity
