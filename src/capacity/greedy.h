// How do models share GPUs that are not enough for all of them?
#pragma once

#include <span>

#include "capacity/plan.h"

namespace tailrace::capacity {

/// Serves the model with the highest priority · need down to the mean of those that compete, again
/// and again, until nobody gets anything. `plans` are those with a need.
void share_by_score(std::span<Plan*> plans, GpuLimits& limits);

}  // namespace tailrace::capacity
