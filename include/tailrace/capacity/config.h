// What did the operator ask of the analyzer, for which model?
//
// The specification's ConfigMap (section 2): an entry `default` for all models and any number of
// entries that name one by model_id and namespace, each a YAML document of its own. Read from the
// Kubernetes manifest or from a plain file with the same entries as mappings. What is wrong with
// one entry is a problem of that entry alone: it is reported, and the replicas of its model are
// held, since a wrong guess at what was meant would move them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/capacity/defaults.h"
#include "tailrace/capacity/fleet.h"
#include "tailrace/capacity/variant.h"
#include "tailrace/core/yaml_tree.h"
#include "tailrace/queueing/sizing.h"
#include "tailrace/tune/estimator.h"

namespace tailrace::capacity {

/// How supply and demand are put together. `published` reports the supply of the replicas that
/// demand would need, as the specification's authors do, so that a model never grows
/// (docs/capacity.md).
enum class Assembly { kCorrected, kPublished };

/// What an entry says of a variant; what it leaves out is as the collector found it. Our addition.
struct VariantSettings {
  std::optional<double> cost;
  std::optional<std::int64_t> gpus, min, max;
  std::optional<std::int64_t> max_batch, max_batched_tokens, kv_tokens, max_queue;
  std::optional<double> knee_tokens;
  std::optional<std::string> accelerator, fingerprint;
  std::optional<Role> role;

  void apply_to(Variant& variant) const;
};

struct ModelSettings {
  double slo_multiplier = kDefaultSloMultiplier;
  queueing::Targets targets;  ///< explicit ones; 0: infer
  // The rest is our addition.
  tune::EstimatorKind estimator = tune::EstimatorKind::kWindowed;
  queueing::Mode latency_model = queueing::Mode::kCorrected;
  Assembly assembly = Assembly::kCorrected;
  /// Keep an inferred SLO once its parameters have settled: else an alpha learnt too high loosens
  /// the very target that it is judged by.
  bool freeze_slo = true;
  std::optional<double> priority;  ///< else the model's own
  double drain_s = kDefaultDrainSeconds;
  /// From an order to a replica that serves. Above 0 demand is foreseen for that time.
  double startup_s = 0;
  double demand_margin = kDefaultDemandMargin;  ///< standard errors added to what is foreseen
  double scale_up_threshold = kDefaultScaleUpThreshold;
  double scale_down_threshold = kDefaultScaleDownThreshold;
  double transient_delay_s = kTransientDelaySeconds;
  bool scale_to_zero = false;
  double retention_s = kDefaultRetentionSeconds;  ///< without a request, before the last goes
  std::map<std::string, VariantSettings> variants;

  bool explicit_slo() const;
};

struct ConfigProblem {
  std::string entry;
  std::string message;     ///< place, value and remedy; may have several lines
  bool duplicate = false;  ///< right by itself, but an entry before it names the same model
};

/// One entry as its source has it; `line`, from 1, is where its text begins (0: unknown).
struct ConfigEntry {
  std::string name;
  std::string yaml;
  int line = 0;
  std::optional<core::YamlNode> tree = {};  ///< in place of `yaml`, where the file is no ConfigMap
};

/// The entries of a manifest (kind: ConfigMap) or a plain file; none of an empty one. Errors:
/// kInvalidArgument where the file as a whole cannot be read.
Result<std::vector<ConfigEntry>> read_entries(std::string_view text, std::string_view origin);

/// Entries that another controller's ConfigMap has, thresholds of the saturation analyzer for
/// example: whose they are, and what to do instead. Empty: none of those known.
std::optional<std::string> foreign_entries(std::span<const ConfigEntry> entries);

/// Every key of an entry, as tables in Markdown.
std::string config_reference();

class Config {
 public:
  /// Built-in defaults for every model: what `default: {}` says.
  static Config with_defaults();
  /// For no model: replicas are held, and `reason` says why.
  static Config inactive(std::string reason);
  /// Entries of a ConfigMap. Never fails: what is wrong is in problems().
  static Config of_entries(std::span<const ConfigEntry> entries, std::string_view origin);
  /// What read_entries gives. Errors: its own, and kInvalidArgument for foreign entries.
  static Result<Config> parse(std::string_view text, std::string_view origin);

  /// What holds for a model. Errors: kUnavailable with the reason why its replicas are held: no
  /// `default` entry, or one that is wrong.
  Result<ModelSettings> settings_of(const ModelKey& key) const;

  /// What the entry `default` says of all models together.
  const FleetSettings& fleet() const { return fleet_; }

  /// Changes what holds for every model, held ones aside: for flags that stand above the file.
  void change_all(const std::function<void(ModelSettings&)>& change);

  bool active() const { return active_; }  ///< there is a `default` entry
  const std::vector<ConfigProblem>& problems() const { return problems_; }
  /// What is allowed but does nothing.
  const std::vector<std::string>& notes() const { return notes_; }
  /// Models that entries name, whatever is wrong with them.
  const std::set<ModelKey>& named() const { return named_; }

 private:
  friend class ConfigReader;

  bool active_ = false;
  std::string why_inactive_;  ///< "": there is no `default` entry
  std::optional<std::string> default_is_wrong_;
  ModelSettings defaults_;
  FleetSettings fleet_;
  std::map<ModelKey, ModelSettings> models_;
  std::map<ModelKey, std::string> held_;
  std::map<std::string, std::string> held_models_, held_namespaces_;
  std::set<ModelKey> named_;
  std::vector<ConfigProblem> problems_;
  std::vector<std::string> notes_;
};

}  // namespace tailrace::capacity
