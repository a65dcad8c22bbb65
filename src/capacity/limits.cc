#include "tailrace/capacity/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "capacity/counts.h"

namespace tailrace::capacity {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

std::int64_t budget_of(const std::map<std::string, std::int64_t>& budgets,
                       const std::string& accelerator) {
  const auto found = budgets.find(accelerator);
  if (found == budgets.end()) return 0;
  return found->second < 0 ? kUnlimited : found->second;
}

void spend(std::map<std::string, std::int64_t>& budgets, const std::string& accelerator,
           std::int64_t gpus) {
  const auto found = budgets.find(accelerator);
  if (found == budgets.end() || found->second < 0) return;
  found->second = std::max<std::int64_t>(0, found->second - gpus);
}

std::int64_t gpus_of(int per_replica, std::int64_t replicas) {
  const std::int64_t each = std::max(1, per_replica);
  return replicas > kUnlimited / each ? kUnlimited : each * std::max<std::int64_t>(0, replicas);
}

/// The part of a growing target that no limit cuts.
std::int64_t uncut(const Decision& decision, const VariantCapacity& variant) {
  return std::max(decision.observed(), std::min(decision.desired, variant.min));
}

struct Growth {
  Decision* decision;
  const VariantCapacity* variant;
  double spare, cost;

  bool operator<(const Growth& other) const {
    return std::tie(spare, cost, decision->key, decision->variant) <
           std::tie(other.spare, other.cost, other.decision->key, other.decision->variant);
  }
};

}  // namespace

std::int64_t GpuLimits::left(const std::string& ns, const std::string& accelerator) const {
  const std::int64_t free = budget_of(available, accelerator);
  const auto own = quota.find(ns);
  return own == quota.end() ? free : std::min(free, budget_of(own->second, accelerator));
}

std::int64_t GpuLimits::replicas(const std::string& ns, const std::string& accelerator,
                                 int gpus) const {
  return left(ns, accelerator) / std::max(1, gpus);
}

void GpuLimits::take(const std::string& ns, const std::string& accelerator, int gpus,
                     std::int64_t replicas) {
  const std::int64_t taken = gpus_of(gpus, replicas);
  spend(available, accelerator, taken);
  const auto own = quota.find(ns);
  if (own != quota.end()) spend(own->second, accelerator, taken);
}

GpuLimits within_nodes(std::optional<GpuLimits> total,
                       const std::map<std::string, std::int64_t>& node_gpus,
                       std::span<const ModelAnalysis> models) {
  const bool counted = total.has_value();
  GpuLimits out = std::move(total).value_or(GpuLimits{});
  for (const ModelAnalysis& model : models) {
    for (const VariantCapacity& v : model.variants) {
      if (!counted) out.available.try_emplace(v.accelerator, -1);
    }
  }
  for (auto& [kind, available] : out.available) {
    const auto there = node_gpus.find(kind);
    if (there == node_gpus.end()) continue;
    available = available < 0 ? there->second : std::min(available, there->second);
  }
  return out;
}

GpuLimits free_gpus(GpuLimits total, std::span<const ModelAnalysis> models) {
  for (const ModelAnalysis& model : models) {
    for (const VariantCapacity& v : model.variants) {
      total.take(model.key.ns, v.accelerator, v.gpus_per_replica, add_counts(v.current, v.pending));
    }
  }
  return total;
}

void limit_growth(std::span<const ModelAnalysis> models, GpuLimits limits,
                  std::span<Decision> decisions) {
  std::vector<Growth> growing;
  std::size_t next = 0;
  for (const ModelAnalysis& model : models) {
    for (const VariantCapacity& variant : model.variants) {
      if (next == decisions.size()) break;
      Decision& decision = decisions[next++];
      if (decision.desired <= decision.observed()) continue;
      const double cost =
          std::isnan(variant.cost) ? std::numeric_limits<double>::infinity() : variant.cost;
      growing.push_back({&decision, &variant, finite_amount(model.spare_per_s), cost});
      limits.take(decision.key.ns, variant.accelerator, variant.gpus_per_replica,
                  uncut(decision, variant) - decision.observed());
    }
  }
  std::sort(growing.begin(), growing.end());
  for (const Growth& g : growing) {
    Decision& decision = *g.decision;
    const std::int64_t base = uncut(decision, *g.variant);
    const std::int64_t fits =
        limits.replicas(decision.key.ns, g.variant->accelerator, g.variant->gpus_per_replica);
    const std::int64_t granted = std::min(decision.desired - base, fits);
    limits.take(decision.key.ns, g.variant->accelerator, g.variant->gpus_per_replica, granted);
    if (base + granted == decision.desired) continue;
    const std::int64_t lacking =
        gpus_of(g.variant->gpus_per_replica, decision.desired - base - granted);
    decision.waits_for =
        fmt::format("{} GPU{} of {}", lacking, lacking == 1 ? "" : "s", g.variant->accelerator);
    decision.apply("limit",
                   fmt::format("{} cut to {}: {} has no more free GPUs for {}", decision.desired,
                               base + granted, g.variant->accelerator, decision.key.ns),
                   base + granted);
  }
}

}  // namespace tailrace::capacity
