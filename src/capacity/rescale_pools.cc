#include "capacity/rescale_pools.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "capacity/counts.h"
#include "tailrace/capacity/rescale.h"

namespace tailrace::capacity {
namespace {

/// One model's part of a pool of GPUs.
struct Member {
  Plan* plan;
  Plan wanted;  // as if there were no limit
  std::int64_t used, wants, floor;
};

std::int64_t gpus_each(const Plan& plan, std::size_t i) {
  return std::max(1, plan.variant(i).gpus_per_replica);
}

/// GPUs of `replicas` of one variant, far below overflow.
std::int64_t gpus_of(const Plan& plan, std::size_t i, std::int64_t replicas) {
  const std::int64_t n = std::clamp<std::int64_t>(replicas, 0, kReplicasMax);
  return std::min(kReplicasMax, n * gpus_each(plan, i));
}

/// Of all variants.
std::int64_t gpus_of(const Plan& plan, std::span<const std::int64_t> replicas) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    sum = std::min(kReplicasMax, sum + gpus_of(plan, i, replicas[i]));
  }
  return sum;
}

/// The one accelerator that a model runs on, if it is one.
std::optional<std::string> accelerator_of(const Plan& plan) {
  const auto& variants = plan.model->variants;
  if (variants.empty()) return std::nullopt;
  const bool one = std::all_of(variants.begin(), variants.end(), [&variants](const auto& v) {
    return v.accelerator == variants[0].accelerator;
  });
  return one ? std::optional(variants[0].accelerator) : std::nullopt;
}

Member member_of(Plan& plan, ShrinkRule rule) {
  Member member{&plan, plan, 0, 0, 0};
  if (plan.needs_more()) {
    grow(member.wanted, 1, nullptr);
  } else {
    shrink(member.wanted, rule);
  }
  std::vector<std::int64_t> floors;
  floors.reserve(plan.start.size());
  for (std::size_t i = 0; i < plan.start.size(); ++i) floors.push_back(plan.min(i));
  member.used = gpus_of(plan, plan.start);
  member.wants = gpus_of(plan, member.wanted.target);
  member.floor = gpus_of(plan, floors);
  return member;
}

/// Gives back replicas until at most `gpus` are used, dearest first; roles each down to their
/// share.
void give_back(Plan& plan, const Plan& wanted, std::int64_t gpus) {
  std::map<Role, double> weights;
  std::map<Role, std::int64_t> floors;
  std::vector<std::size_t> order(plan.start.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&plan](std::size_t a, std::size_t b) {
    const double left = plan.cost(a);
    const double right = plan.cost(b);
    return left != right ? left > right : plan.variant(a).name < plan.variant(b).name;
  });
  for (const std::size_t i : order) {
    const Role role = plan.model->roles.empty() ? Role::kBoth : plan.variant(i).role;
    weights[role] += double(wanted.target[i]) * double(gpus_each(plan, i));
    floors[role] = add_counts(floors[role], gpus_of(plan, i, plan.min(i)));
  }
  const auto shares = split_by_role(gpus, floors, weights);
  for (const auto& [role, share] : shares) {
    std::int64_t used = 0;
    std::vector<std::size_t> members;
    for (const std::size_t i : order) {
      if (!plan.model->roles.empty() && plan.variant(i).role != role) continue;
      members.push_back(i);
      used = std::min(kReplicasMax, used + gpus_of(plan, i, plan.target[i]));
    }
    for (const std::size_t i : members) {
      if (used <= share) break;
      const std::int64_t each = gpus_each(plan, i);
      const std::int64_t n = std::min((used - share + each - 1) / each,
                                      std::max<std::int64_t>(0, plan.target[i] - plan.min(i)));
      plan.target[i] -= n;
      used -= n * each;
      if (n > 0)
        plan.note[i] = fmt::format("rescale: {} this model's share",
                                   gpus == 1 ? "1 GPU is" : fmt::format("{} GPUs are", gpus));
    }
  }
}

/// Takes free GPUs up to the share.
void fill(Plan& plan, const std::string& accelerator, std::int64_t share, std::int64_t used,
          GpuLimits& limits) {
  const std::string& ns = plan.model->key.ns;
  GpuLimits own;
  own.available[accelerator] = std::min(limits.left(ns, accelerator), share - used);
  grow(plan, 1, &own);
  for (std::size_t i = 0; i < plan.target.size(); ++i) {
    limits.take(ns, accelerator, plan.variant(i).gpus_per_replica, plan.target[i] - plan.start[i]);
  }
}

void settle(std::vector<Member>& members, const std::string& accelerator, std::int64_t budget,
            GpuLimits& limits) {
  std::vector<RescaleClaim> claims;
  claims.reserve(members.size());
  for (const Member& m : members) {
    claims.push_back({.id = m.plan->model->key.text(),
                      .priority = m.plan->model->priority,
                      .demand = double(m.wants),
                      .floor = m.floor,
                      .cap = kReplicasMax});
  }
  const auto shares = rescale_by_priority(budget, claims).targets;
  std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
    const double left = finite_amount(a.plan->model->priority);
    const double right = finite_amount(b.plan->model->priority);
    return left != right ? left > right : a.plan->model->key < b.plan->model->key;
  });
  for (Member& m : members) {
    const std::int64_t share = shares.at(m.plan->model->key.text());
    if (share >= m.used) {
      if (m.plan->needs_more()) {
        fill(*m.plan, accelerator, share, m.used, limits);
      }
    } else if (m.wants <= share) {
      m.plan->target = m.wanted.target;  // it wants to shrink anyway, and that is enough
    } else {
      give_back(*m.plan, m.wanted, share);
    }
  }
}

}  // namespace

void rescale_pools(std::span<Plan> plans, ShrinkRule rule, GpuLimits& limits) {
  std::map<std::pair<std::string, std::string>, std::vector<Member>> pools;
  for (Plan& plan : plans) {
    const auto accelerator = accelerator_of(plan);
    if (!accelerator || !plan.held.empty()) continue;
    const std::string& ns = plan.model->key.ns;
    pools[{*accelerator, limits.quota.contains(ns) ? ns : std::string()}].push_back(
        member_of(plan, rule));
  }
  for (auto& [pool, members] : pools) {
    const std::int64_t free = limits.left(pool.second, pool.first);
    std::int64_t budget = std::min(free, kReplicasMax);
    std::int64_t wants = 0;
    for (const Member& m : members) {
      budget = add_counts(budget, m.used);
      wants = add_counts(wants, m.wants);
    }
    if (wants <= budget) continue;
    for (const Member& m : members) m.plan->settled = true;
    settle(members, pool.first, budget, limits);
  }
}

}  // namespace tailrace::capacity
