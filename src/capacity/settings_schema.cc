#include "capacity/settings_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <type_traits>

#include "capacity/names.h"
#include "tailrace/core/text.h"

namespace tailrace::capacity {
namespace {

using queueing::Statistic;

constexpr double kMillisecondsMax = 1e9;
constexpr std::int64_t kReplicasMax = 1'000'000'000;
constexpr std::int64_t kBatchedTokensMax = 1'000'000'000;
constexpr std::int64_t kKvTokensMax = 1'000'000'000'000;
constexpr std::int64_t kSequencesMax = 1'000'000;  // service_model.h takes no more
constexpr std::int64_t kGpusMax = 1'000'000;

tl::unexpected<Error> wrong(std::string what) {
  return fail(ErrorCode::kInvalidArgument, std::move(what));
}

std::string default_text(double value) {
  return fmt::format("{:g}", value);
}
std::string default_text(const std::optional<double>& value) {
  return value ? default_text(*value) : "";
}

/// A number for which `ok` holds; `what` says what it must be.
template <class T, class Ok>
core::Field number_field(std::string name, T& into, const std::string& what, std::string help,
                         Ok ok) {
  core::Field field;
  field.name = std::move(name);
  field.type = what;
  field.help = std::move(help);
  field.default_text = default_text(into);
  field.assign = [&into, what, ok](std::string_view text) -> Result<void> {
    const double value = core::parse_double(text).value_or(NAN);
    if (!std::isfinite(value) || !ok(value)) return wrong("is not a " + what);
    into = value;
    return {};
  };
  return field;
}

core::Field target_field(std::string name, std::optional<double>& into, std::string help) {
  return number_field(std::move(name), into,
                      "number of milliseconds from 0 to 1e9; 0 is no target, so it is inferred",
                      std::move(help), [](double x) { return x >= 0 && x <= kMillisecondsMax; });
}

core::Field whole_field(std::string name, std::optional<std::int64_t>& into, std::int64_t low,
                        std::int64_t high, std::string help) {
  core::Field field;
  field.name = std::move(name);
  field.type = fmt::format("whole number from {} to {}", low, high);
  field.help = std::move(help);
  field.assign = [&into, low, high, type = field.type](std::string_view text) -> Result<void> {
    const std::int64_t value = core::parse_int(text).value_or(-1);
    if (value < low || value > high) return wrong("is not a " + type);
    into = value;
    return {};
  };
  return field;
}

core::Field optional_text_field(std::string name, std::optional<std::string>& into,
                                std::string help) {
  core::Field field;
  field.name = std::move(name);
  field.type = "text";
  field.help = std::move(help);
  field.assign = [&into](std::string_view text) -> Result<void> {
    into = std::string(text);
    return {};
  };
  return field;
}

/// The specification's `tuningEnabled`: a switch with one position.
core::Field tuning_field() {
  core::Field field;
  field.name = "tuningEnabled";
  field.type = "true";
  field.help = "Must be true";
  field.assign = [](std::string_view text) -> Result<void> {
    if (text == "true" || text == "on" || text == "yes") return {};
    return wrong(
        "is not true; without tuning no parameters are ever learnt, and without parameters there "
        "is no capacity to decide by: leave the key out, or say true");
  };
  return field;
}

/// From `low_s` seconds to a day.
core::Field seconds_field(std::string name, double& into, std::string help, int low_s = 0) {
  core::Field field;
  field.name = std::move(name);
  field.type = fmt::format("duration from {} to 24h", low_s == 0 ? "0" : fmt::format("{}s", low_s));
  field.help = std::move(help);
  field.default_text = core::print_duration(
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(into)));
  field.assign = [&into, low_s, type = field.type](std::string_view text) -> Result<void> {
    const auto value = core::parse_duration(text);
    if (!value) return fail(value.error());
    const double seconds = std::chrono::duration<double>(*value).count();
    if (!(seconds >= low_s && seconds <= 86400)) return wrong("is not a " + type);
    into = seconds;
    return {};
  };
  return field;
}

/// A number or `off`.
template <class T>
core::Field cap_field(std::string name, std::optional<T>& into, std::string help) {
  constexpr double kMax = 1e9;
  core::Field field;
  field.name = std::move(name);
  field.type =
      std::is_integral_v<T> ? "whole number from 0 to 1e9, or off" : "number from 0 to 1e9, or off";
  field.help = std::move(help);
  field.default_text = into ? fmt::format("{}", *into) : "off";
  field.assign = [&into, type = field.type](std::string_view text) -> Result<void> {
    if (text == "off") {
      into.reset();
      return {};
    }
    const double value = core::parse_double(text).value_or(NAN);
    const bool whole = !std::is_integral_v<T> || std::floor(value) == value;
    if (!(value >= 0 && value <= kMax) || !whole) return wrong("is not a " + type);
    into = static_cast<T>(value);
    return {};
  };
  return field;
}

/// "H100=8" and the like into `into`.
core::Field gpus_field(std::string name, std::map<std::string, std::int64_t>& into,
                       std::string help) {
  core::Field field;
  field.name = std::move(name);
  field.type = "list of KIND=NUMBER, such as H100=8 (-1 for any number)";
  field.help = std::move(help);
  field.is_list = true;
  field.clear = [&into] { into.clear(); };
  field.assign = [&into](std::string_view text) -> Result<void> {
    auto gpus = parse_gpus(text);
    if (!gpus) return fail(gpus.error());
    if (into.insert(std::move(*gpus)).second) return {};
    return wrong("is of a kind that stands twice; keep one");
  };
  return field;
}

core::Field role_field(std::string name, std::optional<Role>& into, std::string help) {
  core::Field field;
  field.name = std::move(name);
  field.type = "both \\| prefill \\| decode";
  field.help = std::move(help);
  field.assign = [&into](std::string_view text) -> Result<void> {
    const auto role = parse_role(text);
    if (!role) return fail(role.error());
    into = *role;
    return {};
  };
  return field;
}

void visit_stabilisation(core::SchemaVisitor& v, StabilisationConfig& s) {
  v.field(seconds_field("downWindow", s.down_window_s,
                        "A decrease takes the largest recommendation of this time"));
  v.field(seconds_field("upWindow", s.up_window_s,
                        "An increase takes the smallest recommendation of this time"));
  v.field(cap_field("upPods", s.up.pods, "Replicas that may be added in upPeriod"));
  v.field(cap_field("upPercent", s.up.percent,
                    "The same, of those at its beginning; where both are set the larger holds"));
  v.field(seconds_field("upPeriod", s.up.period_s, "Of upPods and upPercent", 1));
  v.field(cap_field("downPods", s.down.pods, "Replicas that may go in downPeriod"));
  v.field(cap_field("downPercent", s.down.percent, "The same, of those at its beginning"));
  v.field(seconds_field("downPeriod", s.down.period_s, "Of downPods and downPercent", 1));
}

void visit_fleet(core::SchemaVisitor& v, FleetSettings& fleet, SettingsDraft& draft) {
  v.field(core::choice_field<OptimizerKind>(
      "optimizer", fleet.optimizer.kind,
      {{"cost-aware", OptimizerKind::kCostAware}, {"greedy", OptimizerKind::kGreedyByScore}},
      "In `default`. Who grows: each model by itself, or models compete for the GPUs that are "
      "left"));
  v.field(core::flag_field("rescale", fleet.optimizer.rescale,
                           "In `default`, with optimizer greedy: a kind of GPU that is wanted more "
                           "than there is, is divided anew by priority times demand"));
  v.field(gpus_field("totalGpus", draft.gpus,
                     "In `default`. All GPUs of the fleet, those in use included; a kind that is "
                     "not named has none. Without it nobody counts"));
  v.field(core::flag_field("limitToNodes", fleet.limit_to_nodes,
                           "In `default`, on Kubernetes: growth stops at the GPUs that nodes have "
                           "now, too. Leave it off where nodes are added for pods that wait"));
}

void visit_fleet_sections(core::SchemaVisitor& v, FleetSettings& fleet, SettingsDraft& draft) {
  v.section("stabilisation",
            "In `default`. Between the times of a recording, or the cycles of an autoscaler; "
            "without this section (`stabilisation: {}` has the defaults) each stands for itself.",
            [&] {
              if (!fleet.stabilisation) fleet.stabilisation.emplace();
              visit_stabilisation(v, *fleet.stabilisation);
            });
  v.map("quotas",
        "In `default`, by namespace: what its models may use of `totalGpus`. A namespace that is "
        "not named may use all.",
        [&](const std::string& ns) {
          v.field(gpus_field("gpus", draft.quotas[ns], "Those in use included; other kinds: none"));
        });
}

void visit_variant(core::SchemaVisitor& v, VariantSettings& s) {
  v.field(number_field("cost", s.cost, "number from 0 to 1e9",
                       "Of one replica, in any unit that is the same for all variants",
                       [](double x) { return x >= 0 && x <= 1e9; }));
  v.field(whole_field("gpus", s.gpus, 1, kGpusMax, "GPUs of one replica"));
  v.field(whole_field("min", s.min, 0, kReplicasMax, "Least number of replicas"));
  v.field(whole_field("max", s.max, 0, kReplicasMax, "Greatest number of replicas"));
  v.field(whole_field("maxBatch", s.max_batch, 1, kSequencesMax,
                      "Sequences in a batch (--max-num-seqs)"));
  v.field(whole_field("maxBatchedTokens", s.max_batched_tokens, 0, kBatchedTokensMax,
                      "Tokens of one iteration (--max-num-batched-tokens); 0: no limit"));
  v.field(whole_field("kvTokens", s.kv_tokens, 0, kKvTokensMax,
                      "Tokens of context in memory; 0: unknown"));
  v.field(
      whole_field("maxQueue", s.max_queue, 0, kSequencesMax, "latencyModel chain: who may wait"));
  v.field(number_field("kneeTokens", s.knee_tokens, "number of tokens from 0 to 1e6",
                       "Tokens that an iteration computes at no extra time",
                       [](double x) { return x >= 0 && x <= 1e6; }));
  v.field(role_field("role", s.role,
                     "What its pods do, where prefill and decode run on pods of their own"));
  v.field(optional_text_field("accelerator", s.accelerator, "Kind of GPU, as the limits name it"));
  v.field(optional_text_field("fingerprint", s.fingerprint,
                              "Of image, flags and hardware; another one learns anew"));
}

}  // namespace

void visit_settings(core::SchemaVisitor& v, SettingsDraft& draft) {
  ModelSettings& s = draft.settings;
  v.field(number_field("sloMultiplier", s.slo_multiplier,
                       "number above 1 and up to 1e6 (k; the target utilisation is 1 - 1/k)",
                       "k of an inferred SLO", [](double k) { return k > 1 && k <= 1e6; }));
  v.field(tuning_field());
  if (draft.names_model) {
    v.field(core::text_field("model_id", draft.model, "Not in `default`. Which model"));
    v.field(core::text_field("namespace", draft.ns, "Not in `default`. Where it is served"));
  }
  if (draft.fleet != nullptr) visit_fleet(v, *draft.fleet, draft);
  v.field(target_field("targetTTFT", draft.ttft_ms, "Time to first token; with targetITL"));
  v.field(target_field("targetITL", draft.itl_ms, "Time between tokens; with targetTTFT"));
  v.field(number_field(
      "targetE2E", s.targets.e2e_ms, "number of milliseconds from 0 to 1e9; 0 is no target",
      "Time to the last token", [](double x) { return x >= 0 && x <= kMillisecondsMax; }));
  v.field(core::choice_field<Statistic>("percentile", s.targets.statistic,
                                        {{"mean", Statistic::kMean},
                                         {"50", Statistic::kP50},
                                         {"90", Statistic::kP90},
                                         {"95", Statistic::kP95},
                                         {"99", Statistic::kP99}},
                                        "What explicit targets bind"));
  v.field(core::choice_field<tune::EstimatorKind>(
      "estimator", s.estimator,
      {{"windowed", tune::EstimatorKind::kWindowed}, {"kalman", tune::EstimatorKind::kKalman}},
      "Who learns the parameters"));
  v.field(core::choice_field<queueing::Mode>("latencyModel", s.latency_model,
                                             {{"corrected", queueing::Mode::kCorrected},
                                              {"chain", queueing::Mode::kChain},
                                              {"closed-form", queueing::Mode::kClosedForm}},
                                             "What turns parameters into latencies"));
  v.field(core::choice_field<Assembly>(
      "assembly", s.assembly,
      {{"corrected", Assembly::kCorrected}, {"published", Assembly::kPublished}},
      "How supply and demand are put together"));
  v.field(core::flag_field("freezeSLO", s.freeze_slo, "Keep an inferred SLO once settled"));
  v.field(number_field("priority", s.priority, "number from 0 to 1e6",
                       "Who gets scarce GPUs first; more is sooner",
                       [](double x) { return x >= 0 && x <= 1e6; }));
  v.field(seconds_field("drainTime", s.drain_s, "In which a backlog should be gone"));
  v.field(seconds_field("startupTime", s.startup_s,
                        "From an order to a replica that serves. Above 0, demand is foreseen that "
                        "far; 0: what arrives now counts"));
  v.field(number_field("demandMargin", s.demand_margin, "number from 0 to 10",
                       "With startupTime: standard errors that are added to what is foreseen",
                       [](double x) { return x >= 0 && x <= 10; }));
  const auto share = [](double x) { return x > 0 && x <= 1; };
  v.field(number_field("scaleUpThreshold", s.scale_up_threshold, "number above 0 and up to 1",
                       "Of anticipated supply; above it the model grows", share));
  v.field(number_field("scaleDownThreshold", s.scale_down_threshold, "number above 0 and up to 1",
                       "Of present supply; below it the model shrinks", share));
  v.field(seconds_field("transientDelay", s.transient_delay_s,
                        "For which a new replica teaches nothing"));
  v.field(core::flag_field("scaleToZero", s.scale_to_zero,
                           "Whether the last replica goes when nobody has asked for `retention`, "
                           "where every minimum is 0"));
  v.field(seconds_field("retention", s.retention_s,
                        "How long every pod must have reported no request before that", 1));
  if (draft.fleet != nullptr) visit_fleet_sections(v, *draft.fleet, draft);
  v.map("variants", "By name",
        [&](const std::string& name) { visit_variant(v, s.variants[name]); });
}

namespace {

void check_fleet(SettingsDraft& draft, const std::string& path, core::Problems& problems) {
  FleetSettings& fleet = *draft.fleet;
  if (!draft.gpus.empty()) fleet.total = GpuLimits{draft.gpus, draft.quotas};
  if (draft.gpus.empty() && !draft.quotas.empty() && !draft.given.contains("totalGpus")) {
    problems.add(
        path + ".quotas",
        "needs totalGpus; give how many GPUs of each kind there are (KIND=-1: any number)");
  }
  if (fleet.optimizer.rescale && fleet.optimizer.kind != OptimizerKind::kGreedyByScore) {
    problems.add(path + ".rescale", "needs optimizer greedy; others share nothing");
  }
}

}  // namespace

bool is_fleet_key(std::string_view name) {
  constexpr std::string_view kKeys[] = {"optimizer",    "rescale",       "totalGpus",
                                        "limitToNodes", "stabilisation", "quotas"};
  return std::find(std::begin(kKeys), std::end(kKeys), name) != std::end(kKeys);
}

void check_settings(SettingsDraft& draft, const std::string& path, core::Problems& problems) {
  ModelSettings& s = draft.settings;
  if (draft.fleet != nullptr) check_fleet(draft, path, problems);
  // Of this entry alone: half a pair is a mistake even where `default` has the other half.
  const bool ttft = draft.ttft_ms.value_or(0) > 0;
  const bool itl = draft.itl_ms.value_or(0) > 0;
  const bool unread = (!draft.ttft_ms && draft.given.contains("targetTTFT")) ||
                      (!draft.itl_ms && draft.given.contains("targetITL"));
  if (ttft != itl && !unread) {
    problems.add(
        path + (ttft ? ".targetTTFT" : ".targetITL"),
        fmt::format("is {} ms, but {} is {}; set both above 0, or leave both out to infer "
                    "them",
                    ttft ? *draft.ttft_ms : *draft.itl_ms, ttft ? "targetITL" : "targetTTFT",
                    (ttft ? draft.itl_ms : draft.ttft_ms) ? "0" : "missing"));
  } else if (draft.ttft_ms || draft.itl_ms) {
    s.targets.ttft_ms = draft.ttft_ms.value_or(0);
    s.targets.itl_ms = draft.itl_ms.value_or(0);
  }
  const char* missing = draft.model.empty() ? "model_id" : "namespace";
  if (draft.model.empty() != draft.ns.empty() && !draft.given.contains(missing)) {
    problems.add(path + (draft.model.empty() ? ".namespace" : ".model_id"),
                 fmt::format("is {}, but {} is missing; a model is named by both",
                             core::quoted(draft.model.empty() ? draft.ns : draft.model), missing));
  }
  if (s.targets.statistic != Statistic::kMean && s.latency_model != queueing::Mode::kCorrected) {
    problems.add(path + ".percentile",
                 fmt::format("needs latencyModel corrected; {} knows means only",
                             queueing::to_string(s.latency_model)));
  }
  if (s.scale_down_threshold >= s.scale_up_threshold) {
    problems.add(path + ".scaleDownThreshold",
                 fmt::format("{} is not below scaleUpThreshold {}; without a gap between them "
                             "replicas would come and go",
                             s.scale_down_threshold, s.scale_up_threshold));
  }
  if (s.drain_s <= 0) {
    problems.add(path + ".drainTime", "0 would ask for infinitely many replicas; give 1s or more");
  }
  for (const auto& [name, variant] : s.variants) {
    if (variant.min && variant.max && *variant.min > *variant.max) {
      problems.add(fmt::format("{}.variants.{}.min", path, name),
                   fmt::format("{} is more than max {}", *variant.min, *variant.max));
    }
  }
}

}  // namespace tailrace::capacity
