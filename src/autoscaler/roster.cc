// Variants as one machine's configuration and a cluster's objects have them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tailrace/autoscaler/collector.h"
#include "tailrace/tune/parameter_store.h"

namespace tailrace::autoscaler {
namespace {

std::string fingerprint_of(const MachineVariant& variant) {
  std::map<std::string, std::string> settings;
  for (std::size_t i = 0; i < variant.command.size(); ++i) {
    settings[fmt::format("command {}", i)] = variant.command[i];
  }
  for (std::size_t i = 0; i < variant.env.size(); ++i) {
    settings[fmt::format("env {}", i)] = variant.env[i];
  }
  return tune::fingerprint(settings);
}

/// Of a whole replica: several engines in one share its load, and their metrics are added up.
queueing::ServiceLimits limits_of(const kubernetes::EngineFlags& flags) {
  static constexpr std::int64_t kEnginesMax = 1024, kLimitMax = std::int64_t{1} << 40;
  const auto engines = std::clamp<std::int64_t>(flags.data_parallel.value_or(1), 1, kEnginesMax);
  const auto of_all = [engines](std::int64_t one) {
    return std::min<std::int64_t>(one, kLimitMax) * engines;
  };
  queueing::ServiceLimits limits;
  limits.max_num_seqs = of_all(flags.max_num_seqs.value_or(limits.max_num_seqs));
  limits.max_batched_tokens = of_all(flags.max_batched_tokens.value_or(limits.max_batched_tokens));
  limits.kv_tokens = of_all(flags.kv_tokens.value_or(0));
  return limits;
}

KnownVariant known_of(const MachineVariant& variant) {
  KnownVariant out;
  out.key = {variant.ns, variant.model};
  out.name = variant.name;
  out.accelerator = variant.accelerator;
  out.fingerprint = fingerprint_of(variant);
  out.cost = variant.cost;
  out.min = variant.min;
  out.max = variant.max;
  out.engine = variant.engine;
  out.limits.max_num_seqs = variant.slots;
  if (variant.max_batched_tokens > 0) out.limits.max_batched_tokens = variant.max_batched_tokens;
  out.limits.kv_tokens = variant.kv_tokens;
  return out;
}

class MachineRoster final : public Roster {
 public:
  MachineRoster(const Config& config, std::function<std::vector<ReplicaStatus>()> replicas)
      : variants_(config.variants),
        gateway_(config.gateway_metrics),
        replicas_(std::move(replicas)) {
    for (const MachineVariant& variant : variants_) known_.push_back(known_of(variant));
  }

  void look(double, UniqueFunction<void(Known)> done) override {
    Known out;
    out.variants = known_;
    for (const ReplicaStatus& replica : replicas_()) add(replica, out);
    if (gateway_) out.targets.push_back({"gateway", *gateway_, {}});
    done(std::move(out));
  }

 private:
  void add(const ReplicaStatus& replica, Known& out) const {
    for (std::size_t i = 0; i < known_.size(); ++i) {
      KnownVariant& variant = out.variants[i];
      if (variant.name != replica.variant || variant.key != replica.key) continue;
      const auto address = net::to_string(replica.url.endpoint);
      switch (replica.state) {
        case ReplicaState::kReady: {
          ++variant.current;
          variant.pods.push_back({replica.name, address});
          net::Url url = replica.url;
          url.prefix = variants_[i].metrics_path;
          out.targets.push_back({replica.name,
                                 std::move(url),
                                 {{"namespace", variant.key.ns}, {"pod", replica.name}}});
          break;
        }
        case ReplicaState::kStarting:
        case ReplicaState::kFailed:
          ++variant.pending;
          break;
        case ReplicaState::kDraining:
        case ReplicaState::kStopping:
          return;
      }
      if (replica.started_at_s > variant.scaled_up_at_s.value_or(0)) {
        variant.scaled_up_at_s = replica.started_at_s;
      }
      if (!replica.message.empty()) {
        out.conditions.push_back(
            {observe::ConditionKind::kPodMissing, replica.name, replica.message});
      }
    }
  }

  std::vector<MachineVariant> variants_;
  std::optional<net::Url> gateway_;
  std::function<std::vector<ReplicaStatus>()> replicas_;
  std::vector<KnownVariant> known_;
};

observe::EngineKind engine_of(const std::string& name) {
  if (name == "sglang") return observe::EngineKind::kSglang;
  if (name == "tensorrt-llm") return observe::EngineKind::kTensorRtLlm;
  if (name == "llama.cpp") return observe::EngineKind::kLlamaCpp;
  return observe::EngineKind::kVllm;
}

capacity::Role role_of(const std::string& role) {
  if (role == "prefill") return capacity::Role::kPrefill;
  if (role == "decode") return capacity::Role::kDecode;
  return capacity::Role::kBoth;
}

KnownVariant known_of(const kubernetes::DiscoveredVariant& found) {
  KnownVariant out;
  out.key = {found.ns, found.model};
  out.name = found.name;
  out.accelerator = found.accelerator;
  out.fingerprint = found.fingerprint;
  out.cost = found.cost;
  out.gpus_per_replica = found.gpus_per_replica;
  out.current = found.ready_replicas;
  out.pending = std::max<std::int64_t>(0, found.spec_replicas - found.ready_replicas);
  out.min = found.min;
  out.max = found.max;
  out.role = role_of(found.role);
  out.engine = engine_of(found.engine.engine);
  out.limits = limits_of(found.engine);
  out.model_aliases = found.engine.served_names;
  std::erase(out.model_aliases, found.model);
  for (const auto& pod : found.pods) {
    if (pod.ready && !pod.terminating) out.pods.push_back({pod.name, pod.address});
  }
  return out;
}

class ClusterRoster final : public Roster {
 public:
  ClusterRoster(kubernetes::Discovery& discovery, const Config& config,
                std::function<void(const kubernetes::Inventory&)> seen)
      : discovery_(discovery), gateway_(config.gateway_metrics), seen_(std::move(seen)) {}

  void look(double now_s, UniqueFunction<void(Known)> done) override {
    discovery_.discover([this, alive = std::weak_ptr<int>(alive_), now_s, done = std::move(done)](
                            const Result<kubernetes::Inventory>& inventory) mutable {
      if (!alive.expired()) done(known(now_s, inventory));
    });
  }

 private:
  Known known(double now_s, const Result<kubernetes::Inventory>& inventory) {
    Known out;
    if (!inventory) {
      out.blind = "the cluster's variants are not known: " + inventory.error().message;
      return out;
    }
    seen_(*inventory);
    out.gpus.emplace();
    out.gpus->known = inventory->gpus.has_value();
    if (inventory->gpus) {
      for (const auto& [kind, gpus] : *inventory->gpus) {
        out.gpus->count[kind] = gpus.count;
        out.gpus->vendor[kind] = gpus.vendor;
      }
    }
    for (const auto& problem : inventory->problems) {
      out.conditions.push_back(
          {observe::ConditionKind::kContradiction, problem.object, problem.message});
    }
    std::map<std::pair<std::string, std::string>, Replicas> seen;
    for (const auto& found : inventory->variants) {
      KnownVariant variant = known_of(found);
      Replicas& replicas = seen[{found.ns, found.name}];
      const auto before = replicas_.find({found.ns, found.name});
      if (before != replicas_.end()) replicas = before->second;
      if (before != replicas_.end() && variant.current > replicas.current) replicas.grew_s = now_s;
      replicas.current = variant.current;
      variant.scaled_up_at_s = replicas.grew_s;
      for (const auto& pod : variant.pods) {
        if (pod.address.empty()) continue;
        net::Url url{{pod.address, static_cast<std::uint16_t>(found.engine.port), false},
                     "/metrics"};
        out.targets.push_back({fmt::format("{}/{}", found.ns, pod.name),
                               std::move(url),
                               {{"namespace", found.ns}, {"pod", pod.name}}});
      }
      out.variants.push_back(std::move(variant));
    }
    if (gateway_) out.targets.push_back({"gateway", *gateway_, {}});
    replicas_ = std::move(seen);
    return out;
  }

  struct Replicas {
    std::int64_t current = 0;
    std::optional<double> grew_s;
  };

  kubernetes::Discovery& discovery_;
  std::optional<net::Url> gateway_;
  std::function<void(const kubernetes::Inventory&)> seen_;
  std::map<std::pair<std::string, std::string>, Replicas> replicas_;
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace

std::unique_ptr<Roster> machine_roster(
    const Config& config, const std::function<std::vector<ReplicaStatus>()>& replicas) {
  return std::make_unique<MachineRoster>(config, replicas);
}

std::unique_ptr<Roster> cluster_roster(kubernetes::Discovery& discovery, const Config& config,
                                       std::function<void(const kubernetes::Inventory&)> seen) {
  return std::make_unique<ClusterRoster>(discovery, config, std::move(seen));
}

}  // namespace tailrace::autoscaler
