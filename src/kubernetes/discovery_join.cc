#include "kubernetes/discovery_join.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "tailrace/core/text.h"

namespace tailrace::kubernetes {
namespace {

/// What a scaler and a workload must agree in; the version of an API does not tell objects apart.
using TargetKey = std::tuple<std::string, std::string, std::string>;

TargetKey key_of(const TargetRef& ref) {
  return {ref.ns, ref.kind, ref.name};
}

/// A word as a shell takes it.
std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

class Selector {
 public:
  Selector(const ClusterReading& cluster, const DiscoveryConfig& config)
      : cluster_(cluster), config_(config) {
    for (const auto& ns : cluster.namespaces) {
      if (ns.excluded) excluded_.insert(ns.name);
    }
    for (const auto& workload : cluster.workloads) workloads_[key_of(workload.ref)] = &workload;
    std::set<std::tuple<std::string, std::string>> scaled_objects;
    for (const auto& scaler : cluster.scalers) {
      if (scaler.kind == ScalerKind::kScaledObject) {
        scaled_objects.emplace(scaler.ns, "ScaledObject " + scaler.name);
      }
    }
    for (const auto& scaler : cluster.scalers) {
      // KEDA makes an HPA for each ScaledObject and copies its annotations: one scaler, not two.
      if (scaled_objects.contains({scaler.ns, scaler.made_by})) continue;
      by_target_[key_of(scaler.target)].push_back(&scaler);
    }
  }

  Selection select() {
    for (auto& [target, scalers] : by_target_) {
      std::sort(scalers.begin(), scalers.end(), [](const auto* a, const auto* b) {
        const auto rank = [](const ScalerReading& s) {
          return std::tuple(!s.notes.managed, s.kind != ScalerKind::kScaledObject, s.name);
        };
        return rank(*a) < rank(*b);
      });
      take_scalers(scalers);
    }
    for (const auto& workload : cluster_.workloads) take_annotated(workload);
    for (const auto& old : cluster_.old_variants) refuse_old(old);
    finish();
    return std::move(selection_);
  }

 private:
  bool is_ours(const std::string& ns, const VariantNotes& notes) const {
    if (!notes.managed || notes.excluded || excluded_.contains(ns)) return false;
    return config_.controller_instance.empty() || notes.instance == config_.controller_instance;
  }

  void problem(const std::string& object, std::string message) {
    selection_.problems.push_back({object, std::move(message)});
  }

  /// Managed ones come first, and among them ScaledObjects.
  void take_scalers(const std::vector<const ScalerReading*>& scalers) {
    const ScalerReading& winner = *scalers.front();
    if (!is_ours(winner.ns, winner.notes)) return;
    for (std::size_t i = 1; i < scalers.size(); ++i) {
      const ScalerReading& other = *scalers[i];
      if (other.kind == winner.kind || other.notes.managed) {
        problem(other.object(), fmt::format("scales the same target as {}, which counts; two "
                                            "scalers undo each other's work: delete one of them",
                                            winner.object()));
      }
    }
    // An HPA beside a ScaledObject that we do not see as ours would fight with KEDA's own HPA.
    const auto foreign = std::find_if(scalers.begin(), scalers.end(), [&](const auto* s) {
      return s->kind != winner.kind && !s->notes.managed;
    });
    if (foreign != scalers.end()) {
      problem(winner.object(),
              fmt::format("is left alone, since {} scales the same target and is not managed: "
                          "delete one of them, or annotate that one instead",
                          (*foreign)->object()));
      return;
    }
    take_scaler(winner);
  }

  void take_scaler(const ScalerReading& scaler) {
    if (!scaler.wrong.empty()) {
      for (const auto& wrong : scaler.wrong) problem(scaler.object(), wrong);
      return;
    }
    const auto found = workloads_.find(key_of(scaler.target));
    if (found == workloads_.end()) {
      problem(scaler.object(),
              fmt::format("its target, {} {}, does not exist in namespace {}; correct "
                          "spec.scaleTargetRef or create it",
                          scaler.target.kind, core::quoted(scaler.target.name), scaler.ns));
      return;
    }
    const WorkloadReading& workload = *found->second;
    Candidate candidate = from_workload(workload, scaler.object());
    auto& variant = candidate.variant;
    variant.name = scaler.name;
    variant.model = scaler.notes.model;
    variant.scaler = scaler.kind;
    variant.cost = scaler.notes.cost;
    variant.min = scaler.min;
    variant.max = scaler.max;
    if (!scaler.notes.accelerator.empty()) variant.accelerator = scaler.notes.accelerator;
    if (scaler.paused) {
      variant.paused = true;
      variant.min = scaler.paused_at.value_or(variant.spec_replicas);
      variant.max = variant.min;
    }
    add(std::move(candidate));
  }

  void take_annotated(const WorkloadReading& workload) {
    if (!is_ours(workload.ref.ns, workload.notes)) return;
    const auto scalers = by_target_.find(key_of(workload.ref));
    if (scalers != by_target_.end()) {
      const ScalerReading& scaler = *scalers->second.front();
      problem(workload.object(),
              scaler.notes.managed
                  ? fmt::format("its annotations tailrace.dev/… do nothing, since {} makes it a "
                                "variant: remove the ones or the other",
                                scaler.object())
                  : fmt::format("is left alone, since {} scales it and two writers would undo each "
                                "other's work: delete that one, or annotate it with "
                                "llm-d.ai/managed=true and llm-d.ai/model-id",
                                scaler.object()));
      return;
    }
    if (!workload.wrong.empty()) {
      for (const auto& wrong : workload.wrong) problem(workload.object(), wrong);
      return;
    }
    Candidate candidate = from_workload(workload, workload.object());
    auto& variant = candidate.variant;
    variant.name = workload.ref.name;
    variant.model = workload.notes.model;
    variant.scaler = ScalerKind::kDeployment;
    variant.cost = workload.notes.cost;
    variant.min = workload.min;
    variant.max = workload.max;
    add(std::move(candidate));
  }

  Candidate from_workload(const WorkloadReading& workload, std::string object) {
    Candidate candidate;
    candidate.object = std::move(object);
    candidate.selector = workload.selector;
    candidate.status_ready = workload.ready_replicas;
    auto& variant = candidate.variant;
    variant.ns = workload.ref.ns;
    variant.target = workload.ref;
    variant.target_uid = workload.uid;
    variant.role = workload.pod_template.role;
    variant.gpus_per_replica = workload.gpus;
    variant.engine = workload.pod_template.engine;
    variant.spec_replicas = workload.spec_replicas;
    variant.accelerator = workload.notes.accelerator.empty() ? workload.pod_template.accelerator
                                                             : workload.notes.accelerator;
    for (const auto& note : workload.pod_template.notes) problem(workload.object(), note);
    return candidate;
  }

  /// Names are labels of metrics: one name in a namespace is one variant.
  void add(Candidate candidate) {
    const auto [owner, fresh] =
        named_.emplace(std::tuple(candidate.variant.ns, candidate.variant.name), candidate.object);
    if (fresh) {
      selection_.candidates.push_back(std::move(candidate));
      return;
    }
    problem(candidate.object, fmt::format("has the name of {}, and metrics tell variants apart by "
                                          "name: rename one of them",
                                          owner->second));
  }

  void refuse_old(const OldVariant& old) {
    if (excluded_.contains(old.ns)) return;
    const auto object = fmt::format("VariantAutoscaling {}/{}", old.ns, old.name);
    const auto scalers = by_target_.find({old.ns, "Deployment", old.target});
    if (scalers == by_target_.end()) {
      problem(object,
              fmt::format("this kind is read no more, and nothing scales Deployment {}: give it a "
                          "HorizontalPodAutoscaler with the annotations llm-d.ai/managed=true, "
                          "llm-d.ai/model-id={} and llm-d.ai/variant-cost={}, then delete this "
                          "object",
                          core::quoted(old.target), shell_word(old.model), cost_of(old)));
      return;
    }
    const ScalerReading& scaler = *scalers->second.front();
    if (scaler.notes.managed) {
      problem(object, fmt::format("this kind is read no more; {} is annotated already, so delete "
                                  "this object",
                                  scaler.object()));
      return;
    }
    problem(object,
            fmt::format("this kind is read no more; run: kubectl annotate {} -n {} {} "
                        "llm-d.ai/managed=true llm-d.ai/model-id={} llm-d.ai/variant-cost={} and "
                        "delete this object",
                        scaler.kind == ScalerKind::kScaledObject ? "scaledobject" : "hpa", old.ns,
                        scaler.name, shell_word(old.model), cost_of(old)));
  }

  static std::string cost_of(const OldVariant& old) {
    return old.cost.empty() ? "10" : shell_word(old.cost);
  }

  void finish() {
    std::sort(selection_.candidates.begin(), selection_.candidates.end(),
              [](const Candidate& a, const Candidate& b) {
                return std::tie(a.variant.ns, a.variant.name) <
                       std::tie(b.variant.ns, b.variant.name);
              });
  }

  const ClusterReading& cluster_;
  const DiscoveryConfig& config_;
  std::set<std::string> excluded_;
  std::map<TargetKey, const WorkloadReading*> workloads_;
  std::map<TargetKey, std::vector<const ScalerReading*>> by_target_;
  std::map<std::tuple<std::string, std::string>, std::string> named_;
  Selection selection_;
};

/// Whether a pod that the selector gave is the target's own: selectors may overlap, owners do not.
bool owned(const PodReading& pod, const TargetRef& target, const PodsReading& pods) {
  if (target.kind != "Deployment") return true;
  if (pod.owner_kind != "ReplicaSet") return false;
  if (pods.sets_known) {
    return std::any_of(pods.sets.begin(), pods.sets.end(), [&](const ReplicaSetReading& set) {
      return set.name == pod.owner_name && set.deployment == target.name;
    });
  }
  // A Deployment names its sets after itself and a hash.
  const auto dash = pod.owner_name.rfind('-');
  return dash != std::string::npos && pod.owner_name.substr(0, dash) == target.name;
}

/// What the nodes of its pods are, or all nodes with GPUs, if they are of one kind.
std::string product_of(const std::vector<std::string>& pod_nodes,
                       const std::vector<NodeReading>& nodes) {
  std::set<std::string> theirs, all;
  for (const auto& node : nodes) {
    if (node.product.empty() || node.gpus == 0) continue;
    all.insert(node.product);
    if (std::find(pod_nodes.begin(), pod_nodes.end(), node.name) != pod_nodes.end()) {
      theirs.insert(node.product);
    }
  }
  if (theirs.size() == 1) return *theirs.begin();
  return theirs.empty() && all.size() == 1 ? *all.begin() : "";
}

}  // namespace

Selection select_variants(const ClusterReading& cluster, const DiscoveryConfig& config) {
  return Selector(cluster, config).select();
}

void add_pods(Candidate& candidate, const PodsReading& pods, const ClusterReading& cluster,
              const std::string& remembered) {
  auto& variant = candidate.variant;
  std::vector<std::string> nodes;
  std::int64_t ready = 0;
  for (const auto& reading : pods.pods) {
    if (reading.over || !owned(reading, variant.target, pods)) continue;
    variant.pods.push_back(reading.pod);
    if (!reading.pod.terminating && !reading.node.empty()) nodes.push_back(reading.node);
    if (reading.pod.ready && !reading.pod.terminating) ++ready;
  }
  std::sort(variant.pods.begin(), variant.pods.end(),
            [](const DiscoveredPod& a, const DiscoveredPod& b) { return a.name < b.name; });
  if (!pods.pods_known) ready = candidate.status_ready;
  // A leader may be ready before its workers; the set's own status knows.
  if (variant.target.kind == "LeaderWorkerSet") ready = std::min(ready, candidate.status_ready);
  // A rolling update runs more pods than were asked for; the surplus goes by itself.
  variant.ready_replicas = std::min(ready, variant.spec_replicas);
  if (variant.accelerator.empty()) variant.accelerator = product_of(nodes, cluster.nodes);
  if (variant.accelerator.empty()) variant.accelerator = remembered;
  variant.fingerprint = fingerprint(variant.engine, variant.accelerator, variant.gpus_per_replica);
}

std::map<std::string, GpuKind> gpus_of_nodes(const std::vector<NodeReading>& nodes) {
  std::map<std::string, GpuKind> gpus;
  for (const auto& node : nodes) {
    if (node.gpus <= 0 || node.product.empty()) continue;
    GpuKind& kind = gpus[node.product];  // with none to have: a kind that is there all the same
    if (node.takes_pods) kind.count += node.gpus;
    kind.vendor = node.vendor;
  }
  return gpus;
}

}  // namespace tailrace::kubernetes
