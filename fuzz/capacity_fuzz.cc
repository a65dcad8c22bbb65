// Any settings, variants, limits and several cycles of metrics through the whole analyzer: what it
// decides is finite, within the operator's bounds and with a reason, and what it has learnt
// survives a restart.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "decision_checks.h"
#include "input_bytes.h"
#include "tailrace/capacity/cycle.h"

namespace {

using namespace tailrace;
using namespace tailrace::capacity;

constexpr int kModelsMax = 3, kVariantsMax = 3, kPodsMax = 3, kCyclesMax = 8;
constexpr const char* kNames[] = {"a", "b", "c", "llama", ""};
constexpr const char* kAccelerators[] = {"H100", "A100", ""};

std::string any_value(fuzz::InputBytes& in) {
  static constexpr const char* kWords[] = {
      "corrected", "chain", "closed-form", "windowed", "kalman", "published",
      "true",      "false", "50",          "90",       "99",     "mean",
      "60s",       "0s",    "24h",         "{}",       "",       "[1]"};
  if (in.flag()) return in.one_of(kWords);
  return fmt::format("{}", in.number(100));
}

/// Lines that mean something, most of them.
std::string any_entry(fuzz::InputBytes& in, bool is_default) {
  static constexpr const char* kKeys[] = {
      "sloMultiplier", "targetTTFT",     "targetITL",        "targetE2E",          "percentile",
      "estimator",     "latencyModel",   "assembly",         "freezeSLO",          "priority",
      "drainTime",     "transientDelay", "scaleUpThreshold", "scaleDownThreshold", "nonsense"};
  static constexpr const char* kVariantKeys[] = {"cost",     "gpus",     "min",
                                                 "max",      "maxBatch", "maxBatchedTokens",
                                                 "kvTokens", "maxQueue", "kneeTokens"};
  std::string yaml;
  if (!is_default) {
    yaml +=
        fmt::format("model_id: \"{}\"\nnamespace: \"{}\"\n", in.one_of(kNames), in.one_of(kNames));
  }
  const int lines = in.up_to(4);
  for (int i = 0; i < lines; ++i) {
    const std::string key = in.one_of(kKeys);
    yaml += fmt::format("{}: {}\n", key, any_value(in));
    // A pair of targets, or no targets at all.
    if (key == "targetTTFT") yaml += fmt::format("targetITL: {}\n", any_value(in));
  }
  if (in.flag()) {
    yaml += fmt::format("variants:\n  \"{}\":\n", in.one_of(kNames));
    const int settings = in.up_to(3);
    for (int i = 0; i < settings; ++i) {
      yaml += fmt::format("    {}: {}\n", in.one_of(kVariantKeys), in.whole(100));
    }
  }
  return yaml.empty() ? "{}" : yaml;
}

Config any_models_config(fuzz::InputBytes& in) {
  std::vector<ConfigEntry> entries;
  const int count = in.up_to(3);
  for (int i = 0; i < count; ++i) {
    const bool is_default = in.byte() < 160;
    entries.push_back(
        {is_default ? "default" : fmt::format("entry {}", i),
         in.byte() < 250 ? any_entry(in, is_default) : std::string(in.bytes(in.byte())), 1});
  }
  return entries.empty() ? Config::with_defaults() : Config::of_entries(entries, "fuzz.yaml");
}

CycleConfig any_config(fuzz::InputBytes& in) {
  CycleConfig config;
  config.models = any_models_config(in);
  config.optimizer.kind = in.flag() ? OptimizerKind::kGreedyByScore : OptimizerKind::kCostAware;
  config.optimizer.shrink = in.flag() ? ShrinkRule::kPublished : ShrinkRule::kSafe;
  config.optimizer.pending_guard = !in.flag();
  config.optimizer.rescale = in.flag();
  return config;
}

std::optional<StabilisationConfig> any_stabilisation(fuzz::InputBytes& in) {
  if (in.flag()) return std::nullopt;
  StabilisationConfig config;
  const auto cap = [&] {
    StepCap c;
    if (in.flag()) c.pods = in.whole(4);
    if (in.flag()) c.percent = in.number(100);
    c.period_s = in.number(60);
    return c;
  };
  config.down_window_s = in.number(300);
  config.up_window_s = in.number(60);
  config.up = cap();
  config.down = cap();
  // Callers check first: what is refused is never used.
  return config.check() ? std::optional(config) : std::nullopt;
}

Variant any_variant(fuzz::InputBytes& in, int index) {
  static constexpr Role kRoles[] = {Role::kBoth, Role::kBoth, Role::kPrefill, Role::kDecode};
  Variant v;
  v.name = in.byte() < 230 ? std::string(1, static_cast<char>('a' + index)) : in.one_of(kNames);
  v.accelerator = in.one_of(kAccelerators);
  v.current = in.whole(5);
  if (in.flag()) v.pending = in.whole(3);
  if (in.flag()) v.min = in.whole(3);
  if (in.flag()) v.max = in.whole(8);
  if (in.flag()) v.cost = in.number(10);
  if (in.flag()) v.gpus_per_replica = static_cast<int>(in.whole(4));
  if (in.flag()) v.role = in.one_of(kRoles);
  if (in.flag()) v.limits.max_num_seqs = in.whole(64);
  if (in.flag()) v.limits.max_batched_tokens = in.whole(8'192);
  if (in.flag()) v.limits.kv_tokens = in.whole(100'000'000);
  if (in.flag()) v.limits.max_queue = in.whole(100);
  if (in.flag()) v.knee_tokens = in.number(200);
  if (in.flag()) v.scaled_up_at_s = in.number(100);
  return v;
}

tune::Observation any_pod(fuzz::InputBytes& in, double time_s, int index) {
  tune::Observation pod;
  pod.time_s = time_s;
  pod.pod = std::string(1, static_cast<char>('p' + (in.byte() < 230 ? index : 0)));
  // One load and what an engine would report of it; then some of it replaced.
  const double rate = in.between(0.05, 20);
  pod.rate_per_s = rate;
  pod.input_tokens = in.between(10, 4000);
  pod.output_tokens = in.between(1, 1000);
  pod.itl_ms = (8 + 0.01 * rate) * in.between(0.8, 1.3);
  pod.ttft_ms = (15 + 0.025 * *pod.input_tokens) * in.between(0.8, 1.3);
  const int spoilt = in.byte();
  std::optional<double>* const fields[] = {&pod.rate_per_s, &pod.input_tokens, &pod.output_tokens,
                                           &pod.ttft_ms,    &pod.itl_ms,       &pod.running,
                                           &pod.requests,   &pod.output_cv,    &pod.input_cv,
                                           &pod.prefix_hit, &pod.waiting};
  for (int i = 0; spoilt > 128 && i < spoilt % 4; ++i) {
    auto& field = *in.one_of(fields);
    field = in.maybe(field.value_or(1));
  }
  return pod;
}

std::vector<ModelState> any_models(fuzz::InputBytes& in) {
  std::vector<ModelState> models(static_cast<std::size_t>(1 + in.up_to(kModelsMax - 1)));
  for (std::size_t m = 0; m < models.size(); ++m) {
    models[m].key = {kNames[m], kNames[(m + static_cast<std::size_t>(in.up_to(1))) % 3]};
    if (in.flag()) models[m].priority = in.number(1);
    const int variants = in.up_to(kVariantsMax);
    for (int i = 0; i < variants; ++i) models[m].variants.push_back(any_variant(in, i));
  }
  return models;
}

void collect(fuzz::InputBytes& in, double time_s, std::vector<ModelState>& models) {
  for (auto& model : models) {
    if (in.flag()) model.gateway = Backlog{in.number(20)};
    for (auto& variant : model.variants) {
      variant.pods.clear();
      const int pods = in.up_to(kPodsMax);
      for (int i = 0; i < pods; ++i) variant.pods.push_back(any_pod(in, time_s, i));
      if (in.byte() > 230) variant.current = in.whole(5);
    }
  }
}

GpuLimits any_limits(fuzz::InputBytes& in) {
  GpuLimits limits;
  for (const auto* accelerator : kAccelerators) {
    if (in.flag()) limits.available[accelerator] = in.whole(16);
    if (in.flag()) limits.quota[in.one_of(kNames)][accelerator] = in.whole(8);
  }
  return limits;
}

std::map<ModelKey, ZeroEvidence> any_zero(fuzz::InputBytes& in,
                                          const std::vector<ModelState>& models) {
  std::map<ModelKey, ZeroEvidence> zero;
  for (const auto& model : models) {
    if (in.flag()) continue;
    auto& evidence = zero[model.key];
    evidence.enabled = in.flag();
    evidence.retention_s = in.number(600);
    if (in.flag()) evidence.requests = in.number(1);
    if (in.flag()) evidence.waiting = in.number(1);
  }
  return zero;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::InputBytes in(data, size);
  const auto config = any_config(in);
  const auto stabilisation = any_stabilisation(in);
  CycleState state(stabilisation);
  CycleInput input;
  input.models = any_models(in);
  double now_s = 100;
  for (int i = 0; i < kCyclesMax && (i == 0 || !in.empty()); ++i) {
    collect(in, now_s, input.models);
    if (in.byte() > 200) {
      learn_cycle(now_s, input.models, config.models, state);
    } else {
      if (in.flag()) input.limits = any_limits(in);
      input.zero = any_zero(in, input.models);
      fuzz::check_result(run_cycle(now_s, input, config, state));
    }
    now_s += in.between(1, 4000);
  }
  const auto saved = state.save(now_s);
  CycleState other(stabilisation);
  TAILRACE_CHECK(other.restore(saved).has_value());
  TAILRACE_CHECK(other.save(now_s) == saved);
  fuzz::check_result(run_cycle(now_s, input, config, other));
  return 0;
}
