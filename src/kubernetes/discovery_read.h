// What do the objects say that discovery reads: scalers, workloads, pods, nodes?
//
// Pure: one object's JSON in, what matters of it out. What is wrong with an object that asks to be
// managed is an error that names the place, the value and the remedy.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kubernetes/pod_template.h"
#include "tailrace/kubernetes/discovery.h"

namespace tailrace::kubernetes {

/// What annotations say of a variant.
struct VariantNotes {
  bool managed = false;
  bool excluded = false;  ///< wva.llmd.ai/exclude
  std::string model;
  double cost = 10;
  std::string instance;     ///< wva.llmd.ai/controller-instance
  std::string accelerator;  ///< "": not stated
};

struct ScalerReading {
  ScalerKind kind = ScalerKind::kHorizontalPodAutoscaler;
  std::string ns, name;
  TargetRef target;
  VariantNotes notes;
  std::int64_t min = 0;
  std::optional<std::int64_t> max;
  bool paused = false;
  std::optional<std::int64_t> paused_at;  ///< replicas; empty: where it stands
  std::string made_by;                    ///< "ScaledObject llama": what made it
  std::vector<std::string> wrong;         ///< a sentence each; only of managed ones

  std::string object() const;  ///< "HorizontalPodAutoscaler llm/llama"
};

struct WorkloadReading {
  TargetRef ref;
  std::string uid;
  VariantNotes notes;
  std::int64_t min = 0;
  std::optional<std::int64_t> max;
  TemplateReading pod_template;
  int gpus = 1;          ///< of one replica, all of its pods together
  std::string selector;  ///< of its pods, as a labelSelector
  std::int64_t spec_replicas = 1;
  std::int64_t ready_replicas = 0;  ///< by its status
  std::vector<std::string> wrong;

  std::string object() const;
};

struct PodReading {
  DiscoveredPod pod;
  std::string owner_kind, owner_name, node;
  bool over = false;  ///< succeeded or failed: it serves nobody
};

struct ReplicaSetReading {
  std::string name, deployment;
};

struct NodeReading {
  std::string name, product, vendor;
  std::int64_t gpus = 0;
  bool takes_pods = false;  ///< ready and not cordoned
};

struct NamespaceReading {
  std::string name;
  bool excluded = false;
};

/// The Feb 2026 kind, which upstream has dropped.
struct OldVariant {
  std::string ns, name, target, model, cost;
};

// Errors of all: kDataLoss for what is no such object.
Result<ScalerReading> read_horizontal_pod_autoscaler(std::string_view json);
Result<ScalerReading> read_scaled_object(std::string_view json);
Result<WorkloadReading> read_deployment(std::string_view json);
Result<WorkloadReading> read_leader_worker_set(std::string_view json);
Result<PodReading> read_pod(std::string_view json);
Result<ReplicaSetReading> read_replica_set(std::string_view json);
Result<NodeReading> read_node(std::string_view json);
Result<NamespaceReading> read_namespace(std::string_view json);
Result<OldVariant> read_old_variant(std::string_view json);

}  // namespace tailrace::kubernetes
