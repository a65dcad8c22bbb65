#include "capacity/settings_schema.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

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

/// A number for which `ok` holds; `what` says what it must be.
template <class T, class Ok>
core::Field number_field(std::string name, T& into, const std::string& what, std::string help,
                         Ok ok) {
  core::Field field;
  field.name = std::move(name);
  field.type = what;
  field.help = std::move(help);
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

core::Field seconds_field(std::string name, double& into, std::string help) {
  core::Field field;
  field.name = std::move(name);
  field.type = "duration, such as 60s, up to 24h";
  field.help = std::move(help);
  field.assign = [&into](std::string_view text) -> Result<void> {
    const auto value = core::parse_duration(text);
    if (!value) return fail(value.error());
    const double seconds = std::chrono::duration<double>(*value).count();
    if (!(seconds >= 0 && seconds <= 86400)) return wrong("is not a duration from 0 to 24h");
    into = seconds;
    return {};
  };
  return field;
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
  if (!draft.is_default) {
    v.field(core::text_field("model_id", draft.model, "Which model; with namespace"));
    v.field(core::text_field("namespace", draft.ns, "Where it is served; with model_id"));
  }
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
  const auto share = [](double x) { return x > 0 && x <= 1; };
  v.field(number_field("scaleUpThreshold", s.scale_up_threshold, "number above 0 and up to 1",
                       "Of anticipated supply; above it the model grows", share));
  v.field(number_field("scaleDownThreshold", s.scale_down_threshold, "number above 0 and up to 1",
                       "Of present supply; below it the model shrinks", share));
  v.field(seconds_field("transientDelay", s.transient_delay_s,
                        "For which a new replica teaches nothing"));
  v.map("variants", "By name",
        [&](const std::string& name) { visit_variant(v, s.variants[name]); });
}

void check_settings(SettingsDraft& draft, const std::string& path, core::Problems& problems) {
  ModelSettings& s = draft.settings;
  // Of this entry alone: half a pair is a mistake even where `default` has the other half.
  const bool ttft = draft.ttft_ms.value_or(0) > 0;
  const bool itl = draft.itl_ms.value_or(0) > 0;
  if (ttft != itl) {
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
  if (draft.model.empty() != draft.ns.empty()) {
    problems.add(path + (draft.model.empty() ? ".namespace" : ".model_id"),
                 fmt::format("is {}, but {} is missing; a model is named by both",
                             core::quoted(draft.model.empty() ? draft.ns : draft.model),
                             draft.model.empty() ? "model_id" : "namespace"));
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
