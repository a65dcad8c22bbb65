#include <algorithm>
#include <limits>
#include <optional>

#include "capacity/counts.h"
#include "capacity/plan.h"

namespace tailrace::capacity {
namespace {

/// What one pool does next.
struct Step {
  Pool* pool;
  double want;
  std::size_t variant;
  std::int64_t replicas;
};

std::int64_t room(const Plan& plan, std::size_t i, const GpuLimits* limits) {
  const std::int64_t headroom = plan.headroom(i);
  if (limits == nullptr) return headroom;
  const VariantCapacity& v = plan.variant(i);
  return std::min(headroom,
                  limits->replicas(plan.model->key.ns, v.accelerator, v.gpus_per_replica));
}

std::optional<std::size_t> cheapest(const Plan& plan, const Pool& pool, const GpuLimits* limits) {
  std::optional<std::size_t> best;
  const auto unit_cost = [&plan](std::size_t i) {
    return plan.cost(i) / plan.variant(i).per_replica_per_s;
  };
  for (const std::size_t i : pool.members) {
    if (!plan.sized(i) || room(plan, i, limits) <= 0) continue;
    if (!best || unit_cost(i) < unit_cost(*best) ||
        (unit_cost(i) == unit_cost(*best) && plan.variant(i).name < plan.variant(*best).name)) {
      best = i;
    }
  }
  return best;
}

}  // namespace

std::int64_t grow(Plan& plan, double share, GpuLimits* limits) {
  std::vector<double> wants;
  wants.reserve(plan.pools.size());
  for (const Pool& pool : plan.pools) wants.push_back(pool.remaining * share);
  std::int64_t added = 0;
  for (;;) {
    std::vector<Step> steps;
    for (std::size_t p = 0; p < plan.pools.size(); ++p) {
      if (!(wants[p] > 0)) continue;
      const auto best = cheapest(plan, plan.pools[p], limits);
      if (!best) return added;  // one pool alone serves nobody
      const double capacity = plan.variant(*best).per_replica_per_s;
      steps.push_back({&plan.pools[p], wants[p], *best,
                       std::min(count_up(wants[p], capacity), room(plan, *best, limits))});
    }
    if (steps.empty()) return added;
    // The pool that gets least far sets how far the others go.
    const auto reach = [&plan](const Step& s) {
      return std::min(1.0, double(s.replicas) * plan.variant(s.variant).per_replica_per_s / s.want);
    };
    const auto slowest =
        std::min_element(steps.begin(), steps.end(),
                         [&reach](const Step& a, const Step& b) { return reach(a) < reach(b); });
    const double fraction = reach(*slowest);
    for (const Step& step : steps) {
      const double capacity = plan.variant(step.variant).per_replica_per_s;
      std::int64_t n = step.replicas;
      if (&step != &*slowest) {
        n = std::clamp<std::int64_t>(count_up(step.want * fraction, capacity), 1, step.replicas);
      }
      n = std::min(n, room(plan, step.variant, limits));  // another pool may use the same GPUs
      if (n <= 0) continue;
      const VariantCapacity& v = plan.variant(step.variant);
      if (limits != nullptr) {
        limits->take(plan.model->key.ns, v.accelerator, v.gpus_per_replica, n);
      }
      plan.target[step.variant] += n;
      added += n;
      const double served = double(n) * capacity * (1 + kCountSlack);
      const auto p = static_cast<std::size_t>(step.pool - plan.pools.data());
      wants[p] = std::max(0.0, wants[p] - served);
      step.pool->remaining = std::max(0.0, step.pool->remaining - served);
    }
  }
}

}  // namespace tailrace::capacity
