// Which of the objects that were read are variants, and which replicas do they have?
//
// Pure. First scalers, workloads and annotations are joined; then, when the pods of each are known,
// its replicas are counted. Whoever is left out has a problem that says why.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kubernetes/discovery_read.h"

namespace tailrace::kubernetes {

struct ClusterReading {
  std::vector<ScalerReading> scalers;
  std::vector<WorkloadReading> workloads;
  std::vector<NamespaceReading> namespaces;
  std::vector<OldVariant> old_variants;
  std::vector<NodeReading> nodes;
};

/// A variant whose pods are not known yet.
struct Candidate {
  DiscoveredVariant variant;
  std::string object;    ///< that makes it one, for messages
  std::string selector;  ///< of its pods
  std::int64_t status_ready = 0;
};

struct Selection {
  std::vector<Candidate> candidates;  ///< by namespace and name
  std::vector<DiscoveryProblem> problems;
};

Selection select_variants(const ClusterReading& cluster, const DiscoveryConfig& config);

/// The pods that a selector gave; `sets` are the ReplicaSets that it gave, for Deployments.
struct PodsReading {
  std::vector<PodReading> pods;
  std::vector<ReplicaSetReading> sets;
  bool pods_known = false, sets_known = false;
};

/// Counts replicas and resolves what only running pods tell. `remembered` is the accelerator that
/// was resolved in an earlier cycle, "" if none was.
void add_pods(Candidate& candidate, const PodsReading& pods, const ClusterReading& cluster,
              const std::string& remembered);

/// GPUs of the nodes that take new pods, by product.
std::map<std::string, GpuKind> gpus_of_nodes(const std::vector<NodeReading>& nodes);

}  // namespace tailrace::kubernetes
