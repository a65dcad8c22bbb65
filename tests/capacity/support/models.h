// Models as the analyzer would hand them over, in a line or two.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tailrace/capacity/analysis.h"
#include "tailrace/capacity/decision.h"
#include "tailrace/capacity/optimizer.h"

namespace tailrace::capacity::testing {

inline VariantCapacity variant(std::string name, double cost, double per_replica,
                               std::int64_t current, std::int64_t pending = 0) {
  VariantCapacity v;
  v.name = std::move(name);
  v.accelerator = "A100";
  v.cost = cost;
  v.per_replica_per_s = per_replica;
  v.current = current;
  v.pending = pending;
  v.evidence = Evidence::kSized;
  return v;
}

/// A variant of which no capacity is known.
inline VariantCapacity without_capacity(std::string name, double cost, std::int64_t current,
                                        Evidence evidence) {
  VariantCapacity v = variant(std::move(name), cost, 0, current);
  v.evidence = evidence;
  v.failure = "not analysed";
  return v;
}

/// Required and spare as the analyzer has them: demand against current and pending supply.
inline ModelAnalysis model(std::string name, double demand, std::vector<VariantCapacity> variants) {
  ModelAnalysis m;
  m.key = {"ns", std::move(name)};
  m.demand_per_s = demand;
  for (const VariantCapacity& v : variants) {
    m.supply_per_s += double(v.current + v.pending) * v.per_replica_per_s;
  }
  m.required_per_s = demand > m.supply_per_s ? demand - m.supply_per_s : 0;
  m.spare_per_s = demand < m.supply_per_s ? m.supply_per_s - demand : 0;
  m.variants = std::move(variants);
  return m;
}

/// What an optimizer wanted of a variant of the model ns/m.
inline Decision decision(std::string variant, std::int64_t current, std::int64_t desired) {
  Decision d;
  d.key = {"ns", "m"};
  d.variant = std::move(variant);
  d.accelerator = "A100";
  d.current = current;
  d.desired = current;
  d.apply("optimizer", "made for a test", desired);
  return d;
}

/// Targets by variant.
inline std::map<std::string, std::int64_t> targets(const std::vector<Decision>& decisions) {
  std::map<std::string, std::int64_t> out;
  for (const Decision& d : decisions) out[d.variant] = d.desired;
  return out;
}

inline std::map<std::string, std::int64_t> optimized(
    const ModelAnalysis& m, OptimizerConfig config = {},
    const std::optional<GpuLimits>& limits = std::nullopt) {
  return targets(optimize(config, {&m, 1}, limits));
}

using Targets = std::map<std::string, std::int64_t>;

}  // namespace tailrace::capacity::testing
