// Order: dearest first, then the smaller one, then by name. The published rule spends spare in that
// order and looks at nothing else. The safe one asks before each replica that serves whether the
// rest of those that serve carry the demand (docs/decisions/0012-safe-scale-down.md).
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "capacity/counts.h"
#include "capacity/plan.h"

namespace tailrace::capacity {
namespace {

std::vector<std::size_t> dearest_first(const Plan& plan, std::vector<std::size_t> members) {
  std::sort(members.begin(), members.end(), [&plan](std::size_t a, std::size_t b) {
    const double cost_a = plan.cost(a);
    const double cost_b = plan.cost(b);
    if (cost_a != cost_b) return cost_a > cost_b;
    const double capacity_a = plan.variant(a).per_replica_per_s;
    const double capacity_b = plan.variant(b).per_replica_per_s;
    if (capacity_a != capacity_b) return capacity_a < capacity_b;
    return plan.variant(a).name < plan.variant(b).name;
  });
  return members;
}

void shrink_as_published(Plan& plan, const Pool& pool) {
  std::vector<std::size_t> order;
  for (const std::size_t i : dearest_first(plan, pool.members)) {
    if (plan.sized(i)) order.push_back(i);
  }
  double spare = pool.need.spare_per_s;
  for (const std::size_t i : order) {
    std::int64_t least = plan.min(i);
    const bool dearer_stays =
        std::any_of(order.begin(), order.end(),
                    [&plan, i](std::size_t other) { return other != i && plan.target[other] > 0; });
    if (i == order.back() && !dearer_stays) least = std::max<std::int64_t>(least, 1);
    const double capacity = plan.variant(i).per_replica_per_s;
    const std::int64_t n =
        std::min(count_down(spare, capacity), std::max<std::int64_t>(0, plan.target[i] - least));
    plan.target[i] -= n;
    spare = std::max(0.0, spare - double(n) * capacity);
  }
}

class SafeShrink {
 public:
  SafeShrink(Plan& plan, const Pool& pool)
      : plan_(plan), pool_(pool), order_(dearest_first(plan, pool.members)) {}

  void run() {
    double spare = pool_.need.spare_per_s;
    for (const std::size_t i : order_) {
      if (!plan_.sized(i)) continue;
      const std::int64_t pending = std::max<std::int64_t>(0, plan_.variant(i).pending);
      spare -= take(i, spare, pending);
    }
    for (const std::size_t i : order_) {
      if (!plan_.sized(i)) continue;
      // The slack is what serves beyond the demand; spare may count on replicas to come.
      const double slack = carried() - pool_.need.demand_per_s;
      spare -= take(i, std::min(spare, finite_amount(slack)), kReplicasMax);
    }
    for (const std::size_t i : order_) {
      const Evidence evidence = plan_.variant(i).evidence;
      if (evidence != Evidence::kIdle && evidence != Evidence::kUnreachable) continue;
      if (!(carried() * (1 + kCountSlack) >= pool_.need.demand_per_s)) {
        if (plan_.target[i] > least(i) && plan_.waits_for.empty()) {
          plan_.waits_for = fmt::format("replicas that carry {:.4g} requests/s without {}",
                                        pool_.need.demand_per_s, plan_.variant(i).name);
        }
        continue;
      }
      plan_.target[i] = std::min(plan_.target[i], least(i));
    }
  }

 private:
  /// Requests/s that the replicas which serve, and stay, can take.
  double carried() const {
    return std::accumulate(order_.begin(), order_.end(), 0.0, [this](double sum, std::size_t i) {
      if (!plan_.sized(i)) return sum;
      const std::int64_t serving =
          std::min(plan_.target[i], std::max<std::int64_t>(0, plan_.variant(i).current));
      return sum + double(serving) * plan_.variant(i).per_replica_per_s;
    });
  }

  /// The minimum, and 1 where nobody else would be left.
  std::int64_t least(std::size_t i) const {
    const bool others = std::any_of(order_.begin(), order_.end(), [this, i](std::size_t other) {
      return other != i && plan_.target[other] > 0;
    });
    return std::max<std::int64_t>(plan_.min(i), others ? 0 : 1);
  }

  /// Takes at most `most` replicas that fit into `amount`; returns what of it they are.
  double take(std::size_t i, double amount, std::int64_t most) {
    const double capacity = plan_.variant(i).per_replica_per_s;
    const std::int64_t n = std::min({count_down(amount, capacity), most,
                                     std::max<std::int64_t>(0, plan_.target[i] - least(i))});
    plan_.target[i] -= n;
    return std::min(amount, double(n) * capacity);
  }

  Plan& plan_;
  const Pool& pool_;
  std::vector<std::size_t> order_;
};

/// Every replica is known to be idle, and nothing waits for one.
bool all_idle(const Plan& plan) {
  for (std::size_t i = 0; i < plan.start.size(); ++i) {
    if (plan.start[i] > 0 && plan.variant(i).evidence != Evidence::kIdle) return false;
  }
  return std::all_of(plan.pools.begin(), plan.pools.end(),
                     [](const Pool& pool) { return pool.need.demand_per_s <= 0; });
}

}  // namespace

void shrink(Plan& plan, ShrinkRule rule) {
  if (rule == ShrinkRule::kPublished) {
    if (!plan.held.empty()) return;
    for (const Pool& pool : plan.pools) shrink_as_published(plan, pool);
    return;
  }
  // An idle model fails for want of traffic; that is knowledge enough to shrink it.
  if (!plan.model->active || (!plan.held.empty() && !all_idle(plan))) return;
  for (std::size_t i = 0; i < plan.start.size(); ++i) {
    if (plan.start[i] <= 0 || plan.variant(i).evidence != Evidence::kUnknown) continue;
    plan.waits_for =
        "metrics of " + plan.variant(i).name + ": nobody shrinks while its replicas say nothing";
    return;
  }
  for (const Pool& pool : plan.pools) SafeShrink(plan, pool).run();
}

}  // namespace tailrace::capacity
