#include <algorithm>
#include <array>

#include "tailrace/capacity/config.h"

namespace tailrace::capacity {
namespace {

/// Keys that tell whose a map is, and what to say of it.
struct Foreign {
  std::array<std::string_view, 8> keys;
  std::string_view message;
};

constexpr std::array kOwnKeys{"sloMultiplier", "tuningEnabled", "targetTTFT", "targetITL"};

constexpr std::array kForeign{
    Foreign{
        {"kvCacheThreshold", "queueLengthThreshold", "kvSpareTrigger", "queueSpareTrigger",
         "scaleDownBoundary", "enableLimiter", "analyzers"},
        "these are thresholds of WVA's saturation analyzer, which is not offered here: replicas "
        "are sized by latency targets. Use the ConfigMap wva-queueing-model-config, with "
        "targetTTFT and targetITL or without"},
    Foreign{{"enable_scale_to_zero", "retention_period"},
            "this is WVA's scale-to-zero configuration; write scaleToZero: true and retention: 15m "
            "into entries of the ConfigMap wva-queueing-model-config instead"},
    Foreign{{"PROMETHEUS_BASE_URL", "GLOBAL_OPT_INTERVAL", "GLOBAL_OPT_TRIGGER"},
            "these are settings of WVA's controller; the address of Prometheus and the interval "
            "belong into autoscaler.yaml"},
    Foreign{{"slo-tpot", "slo-ttft"},
            "these are WVA's service classes; write an entry with model_id, namespace, targetTTFT "
            "(slo-ttft) and targetITL (slo-tpot) for each model instead"},
    Foreign{{"device"},
            "these are WVA's prices of accelerators; give each variant its own by the annotation "
            "llm-d.ai/variant-cost instead"},
};

template <class Keys>
bool among(const Keys& keys, std::string_view name) {
  return !name.empty() && std::find(keys.begin(), keys.end(), name) != keys.end();
}

/// Whether `keys` has one that the tree uses at any depth; what stands under `variants` are names.
template <class Keys>
bool uses(const core::YamlNode& node, const Keys& keys) {
  return std::any_of(node.members.begin(), node.members.end(),
                     [&](const auto& member) {
                       return member.key != "variants" &&
                              (among(keys, member.key) || uses(member.node, keys));
                     }) ||
         std::any_of(node.items.begin(), node.items.end(),
                     [&](const auto& item) { return uses(item, keys); });
}

}  // namespace

std::optional<std::string> foreign_entries(std::span<const ConfigEntry> entries) {
  const Foreign* found = nullptr;
  for (const auto& entry : entries) {
    const auto tree =
        entry.tree ? Result<core::YamlNode>(*entry.tree) : core::parse_yaml(entry.yaml);
    if (tree && uses(*tree, kOwnKeys)) return {};
    for (const auto& foreign : kForeign) {
      const bool here = among(foreign.keys, entry.name) || (tree && uses(*tree, foreign.keys));
      if (here && found == nullptr) found = &foreign;
    }
  }
  if (found == nullptr) return {};
  return std::string(found->message);
}

}  // namespace tailrace::capacity
