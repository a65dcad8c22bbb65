#include "tailrace/capacity/cycle.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "capacity/learners.h"
#include "capacity/saved_cycle.h"
#include "tailrace/capacity/analyzer.h"
#include "tailrace/capacity/slo.h"
#include "tailrace/core/text.h"

namespace tailrace::capacity {
namespace {

/// A model that is not collected for longer starts again.
constexpr double kModelMemorySeconds = 86'400;
/// Replicas' own rates over the gateway's: beyond it some traffic does not pass the gateway.
constexpr double kOtherWaysIn = 1.5;

/// An analysis, and what scale to zero is to know.
struct Analysed {
  ModelAnalysis analysis;
  ZeroEvidence zero;
};

/// A model's variants as its settings have them.
std::vector<Variant> with_settings(const ModelState& model, const ModelSettings& settings) {
  auto variants = model.variants;
  for (auto& variant : variants) {
    variant.key = model.key;
    const auto own = settings.variants.find(variant.name);
    if (own != settings.variants.end()) own->second.apply_to(variant);
  }
  return variants;
}

std::optional<std::string> twice_named(const ModelState& model) {
  std::set<std::string_view> names;
  for (const auto& variant : model.variants) {
    if (!names.insert(variant.name).second) {
      return fmt::format("two of its variants are called {}; a variant's name is its own",
                         core::quoted(variant.name));
    }
  }
  return std::nullopt;
}

/// By every signal nobody uses the model: each replica reports, and none has work.
bool known_idle(std::span<const Variant> variants, const WorkloadSummary& model_wide,
                const std::optional<Backlog>& gateway) {
  if (model_wide.busy_pods > 0 || model_wide.unknown_pods > 0 || model_wide.waiting > 0) {
    return false;
  }
  if (gateway && gateway->asked_for()) return false;
  return std::all_of(variants.begin(), variants.end(), [](const Variant& v) {
    return static_cast<std::int64_t>(v.pods.size()) >= v.current &&
           std::none_of(v.pods.begin(), v.pods.end(),
                        [](const auto& pod) { return pod.running.value_or(0) > 0; });
  });
}

/// `seen_s`: of the cycle before.
ZeroEvidence zero_evidence(double now_s, double seen_s, bool idle, const ModelSettings& settings,
                           const std::optional<Backlog>& gateway, ModelMemory& memory) {
  // Over a gap that is longer than the retention nobody knows what happened.
  if (!idle || now_s - seen_s > settings.retention_s) memory.idle_since_s.reset();
  if (idle && !memory.idle_since_s) memory.idle_since_s = now_s;
  ZeroEvidence zero;
  zero.enabled = settings.scale_to_zero;
  zero.retention_s = settings.retention_s;
  if (memory.idle_since_s && now_s - *memory.idle_since_s >= settings.retention_s) {
    zero.requests = 0;
  }
  if (gateway) {
    // Somebody asked, even if the gateway had nowhere to let it wait.
    zero.waiting = gateway->asked_for() ? std::max(1.0, gateway->requests) : gateway->requests;
  }
  return zero;
}

std::string zero_note(double now_s, const ModelSettings& settings, const ModelMemory& memory) {
  const auto after =
      fmt::format("scale to zero after {:g} s without a request: ", settings.retention_s);
  if (!memory.idle_since_s) return after + "not known to be idle now";
  return after + fmt::format("known to be idle for {:g} s", now_s - *memory.idle_since_s);
}

/// What is to be expected when a replica that is ordered now can serve; nothing where nobody knows
/// what arrives.
std::optional<Forecast> foresee(double now_s, double seen_s, const ModelState& model,
                                const ModelSettings& settings, const WorkloadSummary& model_wide,
                                DemandHistory& history) {
  if (settings.assembly == Assembly::kPublished || settings.startup_s <= 0) return std::nullopt;
  const auto counted = model.gateway ? model.gateway->arrivals_per_s : std::nullopt;
  const bool all_pods = model_wide.pods > 0 && model_wide.unknown_pods == 0;
  // Where replicas get far more than the gateway counts, it is not the only way to them.
  if (counted && !(model_wide.rate_per_s > kOtherWaysIn * *counted && model_wide.rate_per_s > 1)) {
    const double window_s = model.gateway->arrivals_window_s;
    history.add(now_s, {*counted, window_s > 0 ? window_s : now_s - seen_s});
  } else if (all_pods) {
    history.add(now_s, {model_wide.rate_per_s, now_s - seen_s});
  } else {
    return std::nullopt;
  }
  return history.ahead(settings.startup_s, settings.demand_margin);
}

std::string forecast_note(const Forecast& f) {
  return fmt::format("arrivals: {:.4g} requests/s now, {:.4g} in {:.0f} s, give or take {:.2g}{}{}",
                     f.now, f.ahead, f.horizon_s, f.sd, f.note.empty() ? "" : "; ", f.note);
}

/// Holds every variant, with the reason.
Analysed held(const ModelState& model, const std::vector<Variant>& variants, bool active,
              const std::string& reason) {
  ModelReading reading;
  reading.key = model.key;
  reading.priority = model.priority;
  for (const auto& variant : variants) reading.variants.push_back({&variant, {}, {}});
  SloTarget none;
  none.reason = "not looked for";
  auto out = analyze(reading, ModelSettings{}, none);
  for (auto& variant : out.variants) variant.failure = reason;
  out.notes.clear();
  out.active = active;
  out.failure = reason;
  // Without its settings nobody knows whether it may be empty: it stays as it is.
  return {std::move(out), ZeroEvidence{.enabled = true}};
}

WorkloadSummary summary_of(const Variant& variant, Assembly assembly, Aggregator& model_wide) {
  Aggregator own(assembly);
  for (const auto& pod : variant.pods) {
    own.add(pod);
    model_wide.add(pod);
  }
  return own.summary();
}

/// Parameters that an SLO may be inferred from: of variants that are there, those with traffic
/// before others.
std::vector<LearntVariant> learnt_variants(const ModelReading& reading) {
  std::vector<LearntVariant> busy, idle;
  for (const auto& v : reading.variants) {
    if (!v.parameters.values || v.summary.pods == 0) continue;
    (v.summary.busy_pods > 0 ? busy : idle).push_back({v.variant->name, *v.parameters.values});
  }
  return busy.empty() ? idle : busy;
}

bool all_identified(const ModelReading& reading) {
  return std::all_of(reading.variants.begin(), reading.variants.end(), [](const auto& v) {
    return v.summary.busy_pods == 0 || v.parameters.identified;
  });
}

SloTarget slo_of(const ModelReading& reading, const WorkloadSummary& model_wide,
                 const ModelSettings& settings, ModelMemory& memory) {
  auto slo = resolve_slo(settings, learnt_variants(reading), model_wide);
  if (settings.assembly == Assembly::kPublished) return slo;
  if (settings.freeze_slo) {
    slo = memory.freeze.update(slo, all_identified(reading), settings.slo_multiplier, model_wide);
  }
  if (slo.source != SloSource::kNone) {
    memory.slo = slo;
  } else if (memory.slo && model_wide.busy_pods == 0) {
    slo = *memory.slo;
    slo.reason += "; no traffic now";
  }
  return slo;
}

/// Free GPUs; empty: nobody has counted them.
std::optional<GpuLimits> limits_of(const CycleInput& input, const CycleConfig& config,
                                   std::vector<ModelAnalysis>& models) {
  if (input.limits) return input.limits;
  auto total = config.total_gpus;
  if (config.limit_to_nodes && !input.node_gpus) {
    for (ModelAnalysis& model : models) {
      model.notes.push_back("limitToNodes limits nothing: nobody has counted the GPUs of nodes");
    }
  }
  if (config.limit_to_nodes && input.node_gpus) {
    for (ModelAnalysis& model : models) {
      for (const VariantCapacity& v : model.variants) {
        if (input.node_gpus->contains(v.accelerator)) continue;
        model.notes.push_back(fmt::format(
            "no node has GPUs of {}'s kind {}: nodes do not limit it; name its accelerator as "
            "their product label does",
            v.name, core::quoted(v.accelerator)));
      }
    }
    total = within_nodes(std::move(total), *input.node_gpus, models);
  }
  return total ? std::optional(free_gpus(std::move(*total), models)) : std::nullopt;
}

}  // namespace

struct CycleState::Impl {
  Learners learners;
  std::map<ModelKey, ModelMemory> models;
  std::optional<Stabiliser> stabiliser;

  Analysed analyse(double now_s, const ModelState& model, const Config& config);
  void forget(double now_s);
};

Analysed CycleState::Impl::analyse(double now_s, const ModelState& model, const Config& config) {
  const auto settings = config.settings_of(model.key);
  if (!settings) {
    return held(model, with_settings(model, {}), config.active(), settings.error().message);
  }
  const auto variants = with_settings(model, *settings);
  if (const auto twice = twice_named(model)) return held(model, variants, true, *twice);

  ModelMemory& memory = models[model.key];
  const double seen_s = std::exchange(memory.seen_s, now_s);
  if (model.gateway) memory.one_queue = model.gateway->one_queue;
  ModelReading reading;
  reading.key = model.key;
  reading.priority = settings->priority.value_or(model.priority);
  reading.gateway = model.gateway;
  Aggregator everything(settings->assembly);
  for (const auto& variant : variants) {
    const auto summary = summary_of(variant, settings->assembly, everything);
    auto parameters = learners.update(now_s, variant, *settings, memory.one_queue);
    reading.variants.push_back({&variant, summary, std::move(parameters)});
  }
  const auto model_wide = everything.summary();
  if (auto workload = model_wide.workload()) memory.workload = workload;
  reading.workload = memory.workload;
  if (settings->startup_s > 0 && settings->assembly == Assembly::kCorrected) {
    reading.lengths = memory.lengths.update(now_s, model_wide.workload());
    if (reading.lengths) reading.workload = reading.lengths;
  }
  reading.forecast = foresee(now_s, seen_s, model, *settings, model_wide, memory.arrivals);
  Analysed out;
  out.analysis = analyze(reading, *settings, slo_of(reading, model_wide, *settings, memory));
  for (auto& variant : out.analysis.variants) {
    learners.set_rates(model.key, out.analysis.slo, variant);
  }
  out.zero = zero_evidence(now_s, seen_s, known_idle(variants, model_wide, model.gateway),
                           *settings, model.gateway, memory);
  if (out.analysis.forecast) {
    out.analysis.notes.push_back(forecast_note(*out.analysis.forecast));
  }
  if (settings->scale_to_zero) {
    out.analysis.notes.push_back(zero_note(now_s, *settings, memory));
  }
  return out;
}

void CycleState::Impl::forget(double now_s) {
  learners.forget(now_s);
  std::erase_if(
      models, [&](const auto& entry) { return now_s - entry.second.seen_s > kModelMemorySeconds; });
}

bool CycleResult::any_failed() const {
  return std::any_of(models.begin(), models.end(), [](const ModelAnalysis& m) {
    return (m.failure || !m.active) && !m.variants.empty();
  });
}

CycleState::CycleState(const std::optional<StabilisationConfig>& stabilisation)
    : impl_(std::make_unique<Impl>()) {
  if (stabilisation) impl_->stabiliser.emplace(*stabilisation);
}
CycleState::CycleState(CycleState&&) noexcept = default;
CycleState& CycleState::operator=(CycleState&&) noexcept = default;
CycleState::~CycleState() = default;

void CycleState::stabilise(const std::optional<StabilisationConfig>& config) {
  auto& stabiliser = impl_->stabiliser;
  if (!config) {
    stabiliser.reset();
  } else if (stabiliser) {
    stabiliser->configure(*config);
  } else {
    stabiliser.emplace(*config);
  }
}

std::string CycleState::save(double now_s) {
  const auto learners = impl_->learners.save(now_s);
  return to_json(impl_->learners.store(), learners, impl_->models,
                 impl_->stabiliser ? impl_->stabiliser->histories() : Stabiliser::Histories{});
}

Result<void> CycleState::restore(std::string_view document) {
  auto saved = parse_saved_cycle(document);
  if (!saved) return fail(saved.error());
  impl_->learners.restore(std::move(saved->store), std::move(saved->learners));
  impl_->models = std::move(saved->models);
  if (impl_->stabiliser) impl_->stabiliser->restore(std::move(saved->histories));
  return {};
}

void learn_cycle(double now_s, const std::vector<ModelState>& models, const Config& config,
                 CycleState& state) {
  // The SLO settles over the same cycles, so the whole analysis runs and only its answer is left.
  for (const auto& model : models) (void)state.impl_->analyse(now_s, model, config);
  state.impl_->forget(now_s);
}

CycleResult run_cycle(double now_s, const CycleInput& input, const CycleConfig& config,
                      CycleState& state) {
  CycleResult result;
  result.models.reserve(input.models.size());
  std::vector<ZeroEvidence> zeros;
  zeros.reserve(input.models.size());
  for (const auto& model : input.models) {
    auto analysed = state.impl_->analyse(now_s, model, config.models);
    const auto given = input.zero.find(model.key);
    zeros.push_back(given == input.zero.end() ? analysed.zero : given->second);
    result.models.push_back(std::move(analysed.analysis));
  }
  state.impl_->forget(now_s);
  const auto limits = limits_of(input, config, result.models);
  result.decisions = optimize(config.optimizer, result.models, limits);
  if (state.impl_->stabiliser) state.impl_->stabiliser->apply(now_s, result.decisions);
  std::span<Decision> rest = result.decisions;
  for (std::size_t i = 0; i < result.models.size(); ++i) {
    const auto& model = result.models[i];
    enforce(model, zeros[i], rest.first(model.variants.size()));
    rest = rest.subspan(model.variants.size());
  }
  if (limits) limit_growth(result.models, *limits, result.decisions);
  sign(result.decisions, config.writer);
  return result;
}

}  // namespace tailrace::capacity
