#include "autoscaler/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "autoscaler/clairvoyant.h"
#include "tailrace/core/check.h"
#include "tailrace/core/rng.h"

namespace tailrace::scenario {
namespace {

std::string kind_json(const Kind& kind, const autoscaler::SimulatedVariant& variant, int max) {
  const engine::EngineConfig& engine = variant.engines.engine;
  return fmt::format(
      R"({{"name":"{}","preset":"{}","cost":{},"slots":{},"min":{},"max":{},"alpha_ms":{},"beta_ms":{},"gamma_ms":{},"knee_tokens":{},"max_batched_tokens":{},"kv_tokens":{}}})",
      kind.name, kind.preset, kind.cost, kind.slots, kind.min, max, engine.cost.alpha_ms,
      engine.cost.beta_ms, engine.cost.gamma_ms, engine.cost.knee_tokens, engine.max_batched_tokens,
      engine.usable_blocks() * engine.block_tokens);
}

}  // namespace

std::string plan_json(const Scenario& scenario) {
  std::string segments;
  for (const Segment& s : scenario.segments()) {
    const Clairvoyant least = clairvoyant(scenario, s);
    segments += fmt::format(
        R"({}{{"name":"{}","from_s":{},"to_s":{},"clairvoyant":{{"replica_s":{},"cost_s":{}}}}})",
        segments.empty() ? "" : ",", s.name, s.from_s, s.to_s, least.engine_s, least.cost_s);
  }
  const auto variants = scenario.variants({0, 0});
  return fmt::format(
      R"({{"base_rate":{},"peak_rate":{},"startup_s":{},"cycle_s":{},"ttft_ms":{},"itl_ms":{},"segments":[{}],"variants":[{},{}]}})"
      "\n",
      scenario.base_rate, scenario.peak_rate, kStartupSeconds, kCycleSeconds, kTtftMs, kItlMs,
      segments, kind_json(scenario.kinds[0], variants[0], kFirstMax),
      kind_json(scenario.kinds[1], variants[1], kSecondMax));
}

std::string plan_requests(const Scenario& scenario, double warm_up_s, std::uint64_t seed) {
  simulate::WorkloadSpec spec = scenario.fleet(seed).run.workload;
  for (auto& point : spec.arrivals.profile) point.at_s += warm_up_s;
  spec.arrivals.profile.front().at_s = 0;
  spec.arrivals.duration_s = warm_up_s + scenario.duration_s();
  auto workload = simulate::make_workload(spec, Rng(seed));
  TAILRACE_CHECK(workload.has_value());
  std::string out;
  simulate::Request request;
  for (;;) {
    const auto more = (*workload)->next(request);
    TAILRACE_CHECK(more.has_value());
    if (!*more) return out;
    // Of text an emulated engine makes a token for four bytes, and four for the message.
    const auto letters = std::max<std::int64_t>(1, request.prompt.count() - 4) * 4;
    out += fmt::format(
        R"({{"id":"{0}","prompt":"{0:x<{1}}","arrival_s":{2:.6f},"output_tokens":{3},"max_tokens":{4}}})"
        "\n",
        request.id, letters, to_seconds(request.arrival.time_since_epoch()), request.output.count(),
        request.cap.count());
  }
}

}  // namespace tailrace::scenario
