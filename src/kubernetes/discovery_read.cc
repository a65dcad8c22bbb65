#include "kubernetes/discovery_read.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kubernetes/fields.h"
#include "tailrace/core/text.h"

namespace tailrace::kubernetes {
namespace {

using fields::Element;
using Texts = std::map<std::string, std::string>;

constexpr std::int64_t kReplicasMax = 1'000'000;
constexpr std::int64_t kKedaMax = 100;  ///< what KEDA takes where maxReplicaCount is not set

/// What every object has.
struct Head {
  std::string ns, name, uid;
  Texts labels, annotations;
};

Result<Head> read_head(Element root) {
  Head head;
  head.ns = fields::text_at(root, {"metadata", "namespace"});
  head.name = fields::text_at(root, {"metadata", "name"});
  head.uid = fields::text_at(root, {"metadata", "uid"});
  head.labels = fields::texts_at(root, {"metadata", "labels"});
  head.annotations = fields::texts_at(root, {"metadata", "annotations"});
  if (head.name.empty()) return fail(ErrorCode::kDataLoss, "an object without metadata.name");
  return head;
}

std::string value_of(const Texts& texts, const std::string& key) {
  const auto found = texts.find(key);
  return found == texts.end() ? "" : found->second;
}

std::int64_t replicas(std::optional<std::int64_t> value, std::int64_t otherwise) {
  return std::clamp<std::int64_t>(value.value_or(otherwise), 0, kReplicasMax);
}

/// Reads annotations of one object, `prefix` WVA's or ours.
class NotesReader {
 public:
  NotesReader(const Head& head, std::vector<std::string>& wrong) : head_(head), wrong_(wrong) {}

  VariantNotes read(const std::string& model_key, const std::string& cost_key) {
    VariantNotes notes;
    constexpr const char* kExclude = "wva.llmd.ai/exclude";
    notes.excluded = value_of(head_.annotations, kExclude) == "true" ||
                     value_of(head_.labels, kExclude) == "true";
    notes.instance = value_of(head_.labels, "wva.llmd.ai/controller-instance");
    notes.accelerator = stated_accelerator(head_.labels, head_.annotations);
    notes.model = std::string(core::trim(value_of(head_.annotations, model_key)));
    cost(cost_key, notes.cost);
    return notes;
  }

  std::optional<std::int64_t> whole(const std::string& key) {
    const auto found = head_.annotations.find(key);
    if (found == head_.annotations.end()) return {};
    const auto number = core::parse_int(core::trim(found->second));
    if (number && *number >= 0 && *number <= kReplicasMax) return number;
    wrong_.push_back(fmt::format("annotation {} is {}; give a whole number from 0 to {}", key,
                                 core::quoted(found->second), kReplicasMax));
    return {};
  }

 private:
  void cost(const std::string& key, double& into) {
    const auto found = head_.annotations.find(key);
    if (found == head_.annotations.end()) return;
    const auto number = core::parse_double(core::trim(found->second));
    if (number && std::isfinite(*number) && *number >= 0 && *number <= 1e12) {
      into = *number;
      return;
    }
    wrong_.push_back(fmt::format(
        "annotation {} is {}; give what one replica costs, a number from 0 on, or leave it out for "
        "10",
        key, core::quoted(found->second)));
  }

  const Head& head_;
  std::vector<std::string>& wrong_;
};

TargetRef target_of(Element root, const std::string& ns) {
  TargetRef target;
  target.ns = ns;
  target.name = fields::text_at(root, {"spec", "scaleTargetRef", "name"});
  const auto kind = fields::text_at(root, {"spec", "scaleTargetRef", "kind"});
  const auto version = fields::text_at(root, {"spec", "scaleTargetRef", "apiVersion"});
  if (!kind.empty()) target.kind = kind;
  if (!version.empty()) {
    target.api_version = version;
  } else if (target.kind == "LeaderWorkerSet") {
    target.api_version = "leaderworkerset.x-k8s.io/v1";
  }
  return target;
}

void check_bounds(std::int64_t min, std::optional<std::int64_t> max, std::string_view min_name,
                  std::string_view max_name, std::vector<std::string>& wrong) {
  if (max && min > *max) {
    wrong.push_back(fmt::format(
        "{} {} is more than {} {}; whoever obeys the one breaks the other, so replicas would go "
        "to and fro: lower the one or raise the other",
        min_name, min, max_name, *max));
  }
  if (max && *max < 1) wrong.push_back(fmt::format("{} is {}; give 1 or more", max_name, *max));
}

void check_managed(ScalerReading& scaler) {
  if (!scaler.notes.managed) return;
  if (scaler.notes.model.empty()) {
    scaler.wrong.emplace_back(
        "annotation llm-d.ai/model-id is missing; set it to the model's name as requests and "
        "metrics have it");
  }
  if (scaler.target.name.empty()) scaler.wrong.emplace_back("spec.scaleTargetRef.name is missing");
  const bool deployment = scaler.target.kind == "Deployment";
  const bool group = scaler.target.kind == "LeaderWorkerSet";
  if (!deployment && !group) {
    scaler.wrong.push_back(fmt::format(
        "spec.scaleTargetRef.kind is {}; variants are a Deployment or a LeaderWorkerSet",
        core::quoted(scaler.target.kind)));
  }
}

/// What both kinds of scaler share.
ScalerReading read_scaler(Element root, const Head& head, ScalerKind kind) {
  ScalerReading scaler;
  scaler.kind = kind;
  scaler.ns = head.ns;
  scaler.name = head.name;
  scaler.target = target_of(root, head.ns);
  scaler.notes = NotesReader(head, scaler.wrong).read("llm-d.ai/model-id", "llm-d.ai/variant-cost");
  scaler.notes.managed = value_of(head.annotations, "llm-d.ai/managed") == "true";
  return scaler;
}

template <class T, class Read>
Result<T> read_object(std::string_view json, const Read& read) {
  fields::Parser parser;
  const auto root = parser.parse(json);
  if (!root) return fail(root.error());
  const auto head = read_head(*root);
  if (!head) return fail(head.error());
  return read(*root, *head);
}

/// "a in (b,c)" for each expression, "a=b" for each label.
std::string selector_of(Element root) {
  std::string selector;
  const auto add = [&selector](const std::string& part) {
    if (!selector.empty()) selector += ',';
    selector += part;
  };
  for (const auto& [key, value] : fields::texts_at(root, {"spec", "selector", "matchLabels"})) {
    add(fmt::format("{}={}", key, value));
  }
  const auto expressions = fields::list_at(root, {"spec", "selector", "matchExpressions"});
  if (!expressions) return selector;
  for (const auto expression : *expressions) {
    const auto key = fields::text_at(expression, {"key"});
    const auto relation = fields::text_at(expression, {"operator"});
    std::string values;
    if (const auto list = fields::list_at(expression, {"values"})) {
      for (const auto value : *list) {
        std::string_view text;
        if (value.get(text) != simdjson::SUCCESS) continue;
        if (!values.empty()) values += ',';
        values += text;
      }
    }
    if (relation == "In") add(fmt::format("{} in ({})", key, values));
    if (relation == "NotIn") add(fmt::format("{} notin ({})", key, values));
    if (relation == "Exists") add(key);
    if (relation == "DoesNotExist") add("!" + key);
  }
  return selector;
}

/// Our annotations, which make a variant of a workload without a scaler.
void read_own_notes(const Head& head, WorkloadReading& workload) {
  NotesReader reader(head, workload.wrong);
  workload.notes = reader.read("tailrace.dev/model-id", "tailrace.dev/variant-cost");
  workload.notes.managed = head.annotations.contains("tailrace.dev/model-id");
  if (workload.notes.managed && workload.notes.model.empty()) {
    workload.wrong.emplace_back(
        "annotation tailrace.dev/model-id is empty; set it to the model's name as requests and "
        "metrics have it");
  }
  workload.min = reader.whole("tailrace.dev/min-replicas").value_or(1);
  workload.max = reader.whole("tailrace.dev/max-replicas");
  check_bounds(workload.min, workload.max, "annotation tailrace.dev/min-replicas",
               "annotation tailrace.dev/max-replicas", workload.wrong);
}

WorkloadReading read_workload(Element root, const Head& head) {
  WorkloadReading workload;
  workload.uid = head.uid;
  workload.ref.ns = head.ns;
  workload.ref.name = head.name;
  read_own_notes(head, workload);
  workload.spec_replicas = replicas(fields::whole_at(root, {"spec", "replicas"}), 1);
  workload.ready_replicas = replicas(fields::whole_at(root, {"status", "readyReplicas"}), 0);
  return workload;
}

bool condition_holds(Element root, std::string_view type) {
  const auto conditions = fields::list_at(root, {"status", "conditions"});
  if (!conditions) return false;
  bool holds = false;
  for (const auto condition : *conditions) {
    if (fields::text_at(condition, {"type"}) == type) {
      holds = fields::text_at(condition, {"status"}) == "True";
    }
  }
  return holds;
}

/// The controller among the owners.
std::pair<std::string, std::string> owner_of(Element root) {
  const auto owners = fields::list_at(root, {"metadata", "ownerReferences"});
  if (!owners) return {};
  for (const auto owner : *owners) {
    if (fields::true_at(owner, {"controller"})) {
      return {fields::text_at(owner, {"kind"}), fields::text_at(owner, {"name"})};
    }
  }
  return {};
}

}  // namespace

std::string_view to_string(ScalerKind kind) {
  switch (kind) {
    case ScalerKind::kHorizontalPodAutoscaler:
      return "HorizontalPodAutoscaler";
    case ScalerKind::kScaledObject:
      return "ScaledObject";
    case ScalerKind::kDeployment:
      break;
  }
  return "Deployment";
}

std::string ScalerReading::object() const {
  return fmt::format("{} {}/{}", to_string(kind), ns, name);
}

std::string WorkloadReading::object() const {
  return fmt::format("{} {}/{}", ref.kind, ref.ns, ref.name);
}

Result<ScalerReading> read_horizontal_pod_autoscaler(std::string_view json) {
  return read_object<ScalerReading>(json, [](Element root, const Head& head) {
    auto scaler = read_scaler(root, head, ScalerKind::kHorizontalPodAutoscaler);
    const auto [kind, name] = owner_of(root);
    if (kind == "ScaledObject") scaler.made_by = kind + " " + name;
    scaler.min = replicas(fields::whole_at(root, {"spec", "minReplicas"}), 1);
    const auto max = fields::whole_at(root, {"spec", "maxReplicas"});
    if (max) scaler.max = replicas(max, 0);
    check_bounds(scaler.min, scaler.max, "spec.minReplicas", "spec.maxReplicas", scaler.wrong);
    check_managed(scaler);
    return scaler;
  });
}

Result<ScalerReading> read_scaled_object(std::string_view json) {
  return read_object<ScalerReading>(json, [](Element root, const Head& head) {
    auto scaler = read_scaler(root, head, ScalerKind::kScaledObject);
    scaler.min = replicas(fields::whole_at(root, {"spec", "minReplicaCount"}), 0);
    scaler.max = replicas(fields::whole_at(root, {"spec", "maxReplicaCount"}), kKedaMax);
    const auto at = value_of(head.annotations, "autoscaling.keda.sh/paused-replicas");
    if (const auto number = core::parse_int(at); number && *number >= 0) {
      scaler.paused = true;
      scaler.paused_at = replicas(number, 0);
    } else if (value_of(head.annotations, "autoscaling.keda.sh/paused") == "true") {
      scaler.paused = true;
    }
    check_bounds(scaler.min, scaler.max, "spec.minReplicaCount", "spec.maxReplicaCount",
                 scaler.wrong);
    check_managed(scaler);
    return scaler;
  });
}

Result<WorkloadReading> read_deployment(std::string_view json) {
  return read_object<WorkloadReading>(json, [](Element root, const Head& head) {
    auto workload = read_workload(root, head);
    workload.selector = selector_of(root);
    if (const auto pods = fields::at(root, {"spec", "template"})) {
      workload.pod_template = read_pod_template(*pods);
    }
    workload.gpus = std::max(1, workload.pod_template.gpus);
    return workload;
  });
}

Result<WorkloadReading> read_leader_worker_set(std::string_view json) {
  return read_object<WorkloadReading>(json, [](Element root, const Head& head) {
    auto workload = read_workload(root, head);
    workload.ref.kind = "LeaderWorkerSet";
    workload.ref.api_version = "leaderworkerset.x-k8s.io/v1";
    // A replica answers through its leader; the workers are part of it, not replicas of their own.
    workload.selector = fmt::format(
        "leaderworkerset.sigs.k8s.io/name={},leaderworkerset.sigs.k8s.io/worker-index=0",
        head.name);
    TemplateReading worker;
    const auto workers = fields::at(root, {"spec", "leaderWorkerTemplate", "workerTemplate"});
    if (workers) worker = read_pod_template(*workers);
    const auto leader = fields::at(root, {"spec", "leaderWorkerTemplate", "leaderTemplate"});
    workload.pod_template = leader ? read_pod_template(*leader) : worker;
    if (workload.pod_template.accelerator.empty()) {
      workload.pod_template.accelerator = worker.accelerator;
    }
    const auto size = std::clamp<std::int64_t>(
        fields::whole_at(root, {"spec", "leaderWorkerTemplate", "size"}).value_or(1), 1, 10'000);
    const auto gpus = workload.pod_template.gpus + (size - 1) * worker.gpus;
    workload.gpus = static_cast<int>(std::clamp<std::int64_t>(gpus, 1, 1'000'000));
    return workload;
  });
}

Result<PodReading> read_pod(std::string_view json) {
  return read_object<PodReading>(json, [](Element root, const Head& head) {
    PodReading reading;
    reading.pod.name = head.name;
    reading.pod.address = fields::text_at(root, {"status", "podIP"});
    reading.pod.terminating = fields::at(root, {"metadata", "deletionTimestamp"}).has_value();
    const auto phase = fields::text_at(root, {"status", "phase"});
    reading.over = phase == "Succeeded" || phase == "Failed";
    reading.pod.ready = phase == "Running" && condition_holds(root, "Ready");
    reading.node = fields::text_at(root, {"spec", "nodeName"});
    std::tie(reading.owner_kind, reading.owner_name) = owner_of(root);
    return reading;
  });
}

Result<ReplicaSetReading> read_replica_set(std::string_view json) {
  return read_object<ReplicaSetReading>(json, [](Element root, const Head& head) {
    const auto [kind, name] = owner_of(root);
    return ReplicaSetReading{head.name, kind == "Deployment" ? name : ""};
  });
}

Result<NodeReading> read_node(std::string_view json) {
  return read_object<NodeReading>(json, [](Element root, const Head& head) {
    NodeReading node;
    node.name = head.name;
    node.product = node_product(head.labels);
    node.takes_pods =
        condition_holds(root, "Ready") && !fields::true_at(root, {"spec", "unschedulable"});
    for (const auto& [name, amount] : fields::texts_at(root, {"status", "allocatable"})) {
      if (!is_gpu_resource(name)) continue;
      node.gpus += std::clamp<std::int64_t>(core::parse_int(amount).value_or(0), 0, 10'000);
      node.vendor = name.substr(0, name.find('/'));
    }
    node.gpus = std::min<std::int64_t>(node.gpus, 10'000);
    return node;
  });
}

Result<NamespaceReading> read_namespace(std::string_view json) {
  return read_object<NamespaceReading>(json, [](Element, const Head& head) {
    constexpr const char* kExclude = "wva.llmd.ai/exclude";
    return NamespaceReading{head.name, value_of(head.annotations, kExclude) == "true" ||
                                           value_of(head.labels, kExclude) == "true"};
  });
}

Result<OldVariant> read_old_variant(std::string_view json) {
  return read_object<OldVariant>(json, [](Element root, const Head& head) {
    OldVariant old{head.ns, head.name, head.name, "", ""};
    // The first version had no reference: its target had its name.
    const auto target = fields::text_at(root, {"spec", "scaleTargetRef", "name"});
    if (!target.empty()) old.target = target;
    old.model = fields::text_at(root, {"spec", "modelID"});
    old.cost = fields::text_at(root, {"spec", "variantCost"});
    return old;
  });
}

}  // namespace tailrace::kubernetes
