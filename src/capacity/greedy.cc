#include "capacity/greedy.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "capacity/counts.h"

namespace tailrace::capacity {
namespace {

double value_of(const Plan& plan) {
  double sum = 0;
  double largest = 0;
  for (const Pool& pool : plan.pools) {
    sum += pool.remaining;
    largest = std::max(largest, pool.remaining);
  }
  const double value = finite_amount(plan.model->priority) * sum;
  return finite_amount(value > 0 ? value : largest);
}

struct Competitor {
  double value;
  Plan* plan;

  /// Highest value first; a model's name decides between equal ones.
  bool operator<(const Competitor& other) const {
    return value != other.value ? value > other.value : plan->model->key < other.plan->model->key;
  }
};

}  // namespace

void share_by_score(std::span<Plan*> plans, GpuLimits& limits) {
  std::multiset<Competitor> active;
  for (Plan* plan : plans) {
    if (const double value = value_of(*plan); value > 0) active.insert({value, plan});
  }
  while (!active.empty()) {
    double mean = 0;
    for (const Competitor& c : active) mean += c.value / double(active.size());
    auto highest = active.extract(active.begin());
    Competitor& top = highest.value();
    double down_to = mean;
    if (active.empty()) {
      down_to = 0;
    } else if (top.value <= mean * (1 + kCountSlack)) {
      down_to = mean - top.value / double(active.size() + 1);
    }
    const double share = std::clamp((top.value - down_to) / top.value, 0.0, 1.0);
    const std::int64_t added = grow(*top.plan, share, &limits);
    top.value = value_of(*top.plan);
    const bool leaves = added == 0 || top.value > mean * (1 + kCountSlack) || !(top.value > 0);
    if (!leaves) active.insert(std::move(highest));
  }
}

}  // namespace tailrace::capacity
