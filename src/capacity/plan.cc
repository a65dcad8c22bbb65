#include "capacity/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "capacity/counts.h"
#include "capacity/names.h"

namespace tailrace::capacity {
namespace {

/// An unknown demand is one that nothing carries.
double demand_amount(double demand) {
  return std::isnan(demand) ? std::numeric_limits<double>::max() : finite_amount(demand);
}

Pool pool_of(std::string name, const RoleNeed& need) {
  Pool pool;
  pool.name = std::move(name);
  pool.need = {demand_amount(need.demand_per_s), finite_amount(need.backlog_per_s),
               finite_amount(need.required_per_s), finite_amount(need.spare_per_s)};
  pool.remaining = pool.need.required_per_s;
  return pool;
}

std::vector<Pool> pools_of(const ModelAnalysis& model) {
  std::vector<Pool> pools;
  if (model.roles.empty()) {
    pools.push_back(pool_of(
        "", {model.demand_per_s, model.backlog_per_s, model.required_per_s, model.spare_per_s}));
    for (std::size_t i = 0; i < model.variants.size(); ++i) pools[0].members.push_back(i);
    return pools;
  }
  for (const auto& [role, need] : model.roles) {
    Pool pool = pool_of(std::string(role_text(role)), need);
    for (std::size_t i = 0; i < model.variants.size(); ++i) {
      if (model.variants[i].role == role) pool.members.push_back(i);
    }
    pools.push_back(std::move(pool));
  }
  return pools;
}

/// What a pool wants is in part only waiting for replicas that are on their way.
void leave_backlog_to_pending(Plan& plan) {
  for (Pool& pool : plan.pools) {
    const bool on_their_way = std::any_of(
        pool.members.begin(), pool.members.end(),
        [&plan](std::size_t i) { return plan.sized(i) && plan.variant(i).pending > 0; });
    if (!on_their_way || !(pool.need.backlog_per_s > 0) || !(pool.remaining > 0)) continue;
    pool.remaining = std::max(0.0, pool.remaining - pool.need.backlog_per_s);
    plan.waits_for = "the replicas on their way, which are for the backlog";
  }
}

std::string needed(const Pool& pool) {
  return fmt::format("{}{:.4g} requests/s", pool.name.empty() ? "" : pool.name + " ",
                     pool.need.required_per_s);
}

std::string spared(const Pool& pool) {
  return fmt::format("{}{:.4g} requests/s", pool.name.empty() ? "" : pool.name + " ",
                     pool.need.spare_per_s);
}

std::string text_of(const Plan& plan, const Pool& pool, std::size_t i) {
  const VariantCapacity& variant = plan.variant(i);
  const std::int64_t change = plan.target[i] - plan.start[i];
  if (!plan.note[i].empty()) return plan.note[i];
  if (change > 0) {
    return fmt::format("{} required: {} more at {:.4g} each", needed(pool), change,
                       variant.per_replica_per_s);
  }
  if (change < 0 && !plan.sized(i)) {
    return fmt::format("{}: {} fewer, the others carry {:.4g} requests/s",
                       to_string(variant.evidence), -change, pool.need.demand_per_s);
  }
  if (change < 0) {
    return fmt::format("{} to spare: {} fewer at {:.4g} each", spared(pool), -change,
                       variant.per_replica_per_s);
  }
  if (!plan.held.empty()) return plan.held;
  if (pool.need.required_per_s > 0) return fmt::format("{} required, not from here", needed(pool));
  if (pool.need.spare_per_s > 0) return fmt::format("{} to spare, not from here", spared(pool));
  return "nothing required, nothing to spare";
}

}  // namespace

Plan::Plan(const ModelAnalysis& analysis, const OptimizerConfig& config)
    : model(&analysis), pools(pools_of(analysis)) {
  for (const VariantCapacity& variant : analysis.variants) {
    start.push_back(add_counts(variant.current, variant.pending));
  }
  target = start;
  note.resize(start.size());
  if (!analysis.active) {
    held = "inactive: the configuration has no entry `default`, so replicas are held";
    waits_for = "an entry `default` in the configuration";
  } else if (analysis.failure) {
    held = "held: " + *analysis.failure;
    waits_for = "usable metrics";
  }
  if (config.pending_guard) leave_backlog_to_pending(*this);
}

bool Plan::sized(std::size_t i) const {
  const VariantCapacity& v = model->variants[i];
  return v.evidence == Evidence::kSized && std::isfinite(v.per_replica_per_s) &&
         v.per_replica_per_s > 0;
}

double Plan::cost(std::size_t i) const {
  const double cost = model->variants[i].cost;
  return std::isnan(cost) ? std::numeric_limits<double>::infinity() : cost;
}

std::int64_t Plan::headroom(std::size_t i) const {
  const std::int64_t most = add_counts(start[i], kReplicasMax);
  const std::int64_t max = std::clamp<std::int64_t>(variant(i).max.value_or(most), 0, most);
  return std::max<std::int64_t>(0, max - target[i]);
}

std::int64_t Plan::min(std::size_t i) const {
  return std::max<std::int64_t>(0, variant(i).min);
}

bool Plan::needs_more() const {
  return std::any_of(pools.begin(), pools.end(),
                     [](const Pool& pool) { return pool.need.required_per_s > 0; });
}

std::vector<Decision> decisions_of(const Plan& plan) {
  std::vector<Decision> decisions;
  decisions.reserve(plan.start.size());
  for (std::size_t i = 0; i < plan.start.size(); ++i) {
    const VariantCapacity& variant = plan.variant(i);
    Decision decision;
    decision.key = plan.model->key;
    decision.variant = variant.name;
    decision.accelerator = variant.accelerator;
    decision.current = variant.current;
    decision.pending = variant.pending;
    decision.desired = plan.start[i];
    const auto pool = std::find_if(plan.pools.begin(), plan.pools.end(), [i](const Pool& p) {
      return std::find(p.members.begin(), p.members.end(), i) != p.members.end();
    });
    decision.apply(
        "optimizer",
        pool == plan.pools.end() ? "its role has no need of its own" : text_of(plan, *pool, i),
        plan.target[i]);
    if (decision.action == Action::kHold) decision.waits_for = plan.waits_for;
    decision.informed = plan.held.empty() || decision.action != Action::kHold;
    decisions.push_back(std::move(decision));
  }
  return decisions;
}

}  // namespace tailrace::capacity
