// What can each variant take under the SLO, and is a model's supply too small or too large?
//
// Pure functions. Each variant is sized with the parameters learnt of it; one that cannot be keeps
// its place as a placeholder without capacity, with its reason (specification 4.3, 4.4). Demand is
// what arrives and what its backlog adds; supply is of the replicas that are there and on their
// way.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tailrace/capacity/aggregate.h"
#include "tailrace/capacity/analysis.h"
#include "tailrace/capacity/config.h"

namespace tailrace::capacity {

struct VariantReading {
  const Variant* variant = nullptr;
  WorkloadSummary summary;
  tune::ParameterEstimate parameters;
};

struct ModelReading {
  ModelKey key;
  double priority = 1;
  std::optional<Backlog> gateway;
  std::optional<Forecast> forecast;
  /// Of the model's requests over several cycles, in the place of each variant's own lengths.
  std::optional<queueing::Workload> lengths;
  std::vector<VariantReading> variants;
  /// Of one busy pod, over all variants; without traffic now, as it was when there was some. Says
  /// what an idle variant would take.
  std::optional<queueing::Workload> workload;
};

ModelAnalysis analyze(const ModelReading& reading, const ModelSettings& settings,
                      const SloTarget& slo);

struct Need {
  double required_per_s = 0, spare_per_s = 0;  ///< never both above 0
};
/// With hysteresis: more is required above `up` of the anticipated supply, some is to spare below
/// `down` of the present one. `up` > `down`.
Need need_between_thresholds(double demand, double supply, double anticipated, double up,
                             double down);

/// As published: the supply is that of the replicas which the demand needs, so that nothing is ever
/// required. `demand` and `capacity` above 0.
struct PublishedSupply {
  std::int64_t replicas = 0;
  double supply_per_s = 0, utilization = 0;
};
/// Errors: those of queueing::replicas_for.
Result<PublishedSupply> published_supply(double demand, double capacity);

}  // namespace tailrace::capacity
