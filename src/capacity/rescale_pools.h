// Which replicas move from one model to another where GPUs of a kind are too few for all?
#pragma once

#include <span>

#include "capacity/plan.h"

namespace tailrace::capacity {

/// For each accelerator and budget (a namespace with a quota has its own) that is wanted more than
/// there are free and used GPUs: targets by rescale_by_priority(). Who is above his share gives
/// replicas back, which frees nothing in this cycle; who is below takes free GPUs, highest priority
/// first. Models that span accelerators, or are held, are left out. Marks the plans that it
/// settled; `limits` loses what they took.
void rescale_pools(std::span<Plan> plans, ShrinkRule rule, GpuLimits& limits);

}  // namespace tailrace::capacity
