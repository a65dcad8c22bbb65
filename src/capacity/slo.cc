#include "tailrace/capacity/slo.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tailrace::capacity {
namespace {

/// Cycles in which an inferred target moves by less than kCalm before it is kept.
constexpr int kCalmCycles = 3;
constexpr double kCalm = 0.05;
/// A kept target is of lengths within this factor of those that it was made for.
constexpr double kLengthFactor = 1.5;

SloTarget explicit_target(const ModelSettings& settings) {
  SloTarget slo;
  slo.targets = settings.targets;
  slo.source = SloSource::kExplicit;
  slo.reason = "set in the configuration";
  return slo;
}

/// A learnt variant has all three above 0; anything else is no parameter set.
bool usable(const queueing::IterationModel& m) {
  const auto good = [](double x) { return x > 0 && std::isfinite(x); };
  return good(m.alpha_ms) && good(m.beta_ms) && good(m.gamma_ms);
}

std::optional<SloTarget> inferred_target(double k, std::span<const LearntVariant> learnt,
                                         const WorkloadSummary& model_wide) {
  const auto workload = model_wide.workload();
  if (!workload) return std::nullopt;
  SloTarget slo;
  const std::string* slow_ttft = nullptr;
  const std::string* slow_itl = nullptr;
  std::size_t count = 0;
  for (const auto& variant : learnt) {
    if (!usable(variant.iteration)) continue;
    ++count;
    const auto own = queueing::infer_slo(variant.iteration, *workload, k);
    // The two maxima may come from different variants (section 3.2).
    if (own.ttft_ms > slo.targets.ttft_ms) {
      slo.targets.ttft_ms = own.ttft_ms;
      slow_ttft = &variant.name;
    }
    if (own.itl_ms > slo.targets.itl_ms) {
      slo.targets.itl_ms = own.itl_ms;
      slow_itl = &variant.name;
    }
  }
  const auto finite = [](double x) { return x > 0 && std::isfinite(x); };
  if (count == 0 || !finite(slo.targets.ttft_ms) || !finite(slo.targets.itl_ms)) {
    return std::nullopt;
  }
  slo.source = SloSource::kInferred;
  slo.reason = fmt::format(
      "iterations of {:g} alpha, for {:.6g} prompt and {:.6g} answer "
      "tokens",
      k, workload->input_mean, workload->output_mean);
  if (count > 1) {
    slo.reason += fmt::format("; the largest over {} variants (TTFT of {}, ITL of {})", count,
                              *slow_ttft, *slow_itl);
  }
  return slo;
}

std::optional<SloTarget> observed_target(const WorkloadSummary& model_wide) {
  const double ttft = model_wide.ttft_ms.value_or(0), itl = model_wide.itl_ms.value_or(0);
  if (!(ttft > 0) || !(itl > 0)) return std::nullopt;
  SloTarget slo;
  slo.targets.ttft_ms = std::min(ttft * kDefaultFallbackHeadroom, kDefaultMaxFallbackTtftMs);
  slo.targets.itl_ms = std::min(itl * kDefaultFallbackHeadroom, kDefaultMaxFallbackItlMs);
  slo.source = SloSource::kObserved;
  slo.reason = fmt::format(
      "{:g} times the present TTFT of {:.4g} ms and ITL of {:.4g} "
      "ms (at most {:g} and {:g} ms), until parameters are learnt",
      kDefaultFallbackHeadroom, ttft, itl, kDefaultMaxFallbackTtftMs, kDefaultMaxFallbackItlMs);
  return slo;
}

bool near(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance * std::max(a, b);
}

}  // namespace

SloTarget resolve_slo(const ModelSettings& settings, std::span<const LearntVariant> learnt,
                      const WorkloadSummary& model_wide) {
  if (settings.explicit_slo()) return explicit_target(settings);
  if (auto slo = inferred_target(settings.slo_multiplier, learnt, model_wide)) return *slo;
  if (auto slo = observed_target(model_wide)) return *slo;
  SloTarget none;
  none.reason = model_wide.busy_pods == 0
                    ? "no pod has traffic to infer one from; set targetTTFT and targetITL"
                    : "neither parameters nor both latencies are known; set targetTTFT and "
                      "targetITL";
  return none;
}

SloTarget SloFreeze::update(const SloTarget& now, bool identified, double multiplier,
                            const WorkloadSummary& model_wide) {
  if (memory_.frozen && now.source != SloSource::kExplicit && still_fits(multiplier, model_wide)) {
    return *memory_.frozen;
  }
  memory_.frozen.reset();
  if (now.source != SloSource::kInferred) {
    memory_.last.reset();
    memory_.calm_cycles = 0;
    return now;
  }
  const bool calm = memory_.last &&
                    near(now.targets.ttft_ms, memory_.last->targets.ttft_ms, kCalm) &&
                    near(now.targets.itl_ms, memory_.last->targets.itl_ms, kCalm);
  memory_.calm_cycles = calm && identified ? memory_.calm_cycles + 1 : 0;
  memory_.last = now;
  if (memory_.calm_cycles < kCalmCycles) return now;
  memory_.frozen = now;
  memory_.frozen->reason += "; kept since the parameters settled";
  memory_.multiplier = multiplier;
  memory_.input_tokens = model_wide.input_tokens.value_or(0);
  memory_.output_tokens = model_wide.output_tokens.value_or(0);
  return *memory_.frozen;
}

bool SloFreeze::still_fits(double multiplier, const WorkloadSummary& model_wide) const {
  if (multiplier != memory_.multiplier) return false;
  const auto fits = [](const std::optional<double>& now, double then) {
    return !now || (*now <= then * kLengthFactor && *now * kLengthFactor >= then);
  };
  return fits(model_wide.input_tokens, memory_.input_tokens) &&
         fits(model_wide.output_tokens, memory_.output_tokens);
}

}  // namespace tailrace::capacity
