// What does a cycle leave for KEDA to ask about?
#pragma once

#include <cstdint>

#include "tailrace/autoscaler/keda.h"

namespace tailrace::autoscaler::testing {

/// A cycle that decided for one variant: `a` in the namespace `llm`.
inline CycleRecord record_of(std::int64_t desired, bool informed = true) {
  CycleRecord record;
  capacity::Decision decision;
  decision.key = {"llm", "m"};
  decision.variant = "a";
  decision.desired = desired;
  decision.informed = informed;
  record.result.decisions = {decision};
  return record;
}

}  // namespace tailrace::autoscaler::testing
