// What does the capacity cycle learn from what was measured and what is known to run?
//
// Joins a Reading with the variants that discovery or the configuration of one machine knows. What
// is not measured stays unknown: a stale or silent pod is a pod of which nothing is known, never
// one without traffic. Pods that no variant expects (surge pods of a rollout, pods that are
// leaving) are no replicas; requests that they are seen to take are demand all the same. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tailrace/autoscaler/world.h"
#include "tailrace/capacity/variant.h"
#include "tailrace/observe/observer.h"

namespace tailrace::autoscaler {

/// A variant as whoever runs it knows it.
struct KnownVariant {
  capacity::ModelKey key;
  std::string name;
  std::string accelerator;
  std::string fingerprint;
  double cost = 10;
  int gpus_per_replica = 1;
  std::int64_t current = 0;  ///< serving
  std::int64_t pending = 0;  ///< asked for and on their way
  std::int64_t min = 0;
  std::optional<std::int64_t> max;
  capacity::Role role = capacity::Role::kBoth;
  queueing::ServiceLimits limits;
  double knee_tokens = 0;
  std::optional<double> scaled_up_at_s;  ///< calendar
  double priority = 1;                   ///< of its model; the highest of a model's counts
  observe::EngineKind engine = observe::EngineKind::kVllm;
  std::vector<std::string> model_aliases;  ///< served names and adapters
  std::vector<observe::ExpectedPod> pods;  ///< that serve: neither surge nor terminating ones
};

/// What an Observer is to look for.
std::vector<observe::ExpectedVariant> expected_variants(std::span<const KnownVariant> variants);

/// Of variants whose every expected pod says freshly how much memory for context it has and uses.
std::vector<KvUse> kv_use(const observe::Reading& reading, std::span<const KnownVariant> variants);

/// By model, in the order of `variants`; each model's variants in theirs. `reading` was made for
/// expected_variants(variants).
std::vector<capacity::ModelState> model_states(const observe::Reading& reading,
                                               std::span<const KnownVariant> variants);

}  // namespace tailrace::autoscaler
