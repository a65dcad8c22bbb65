// Any text as the analyzer's configuration: read or refused in words, and whatever it says of a
// variant is something that the analyzer takes.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "decision_checks.h"
#include "tailrace/capacity/config.h"
#include "tailrace/capacity/cycle.h"

namespace {

using namespace tailrace;
using namespace tailrace::capacity;

void check_settings(const ModelSettings& s) {
  TAILRACE_CHECK(s.slo_multiplier > 1 && std::isfinite(s.slo_multiplier));
  for (const double x : {s.targets.ttft_ms, s.targets.itl_ms, s.targets.e2e_ms, s.transient_delay_s,
                         s.priority.value_or(0)}) {
    fuzz::check_amount(x);
  }
  TAILRACE_CHECK(s.drain_s > 0 && std::isfinite(s.drain_s));
  TAILRACE_CHECK(s.scale_down_threshold > 0 && s.scale_down_threshold < s.scale_up_threshold);
}

/// A model with a busy variant for each that the settings name.
void decide(const Config& config, const ModelKey& key) {
  ModelState model;
  model.key = key;
  std::vector<std::string> names{"plain"};
  if (const auto settings = config.settings_of(key)) {
    check_settings(*settings);
    for (const auto& [name, variant] : settings->variants) names.push_back(name);
  }
  for (const auto& name : names) {
    Variant v;
    v.name = name;
    v.current = 2;
    tune::Observation pod;
    pod.pod = "p";
    pod.rate_per_s = 2;
    pod.input_tokens = 512;
    pod.output_tokens = 128;
    pod.ttft_ms = 60;
    pod.itl_ms = 12;
    v.pods = {pod};
    model.variants.push_back(v);
  }
  CycleState state(std::nullopt);
  CycleInput input;
  input.models = {model};
  CycleConfig cycle;
  cycle.models = config;
  fuzz::check_result(run_cycle(60, input, cycle, state));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 8'192) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = Config::parse(text, "fuzz.yaml");
  if (!config) {
    TAILRACE_CHECK(!config.error().message.empty());
    return 0;
  }
  for (const auto& problem : config->problems()) TAILRACE_CHECK(!problem.message.empty());
  decide(*config, {"ns", "model"});
  int named = 0;
  for (const auto& key : config->named()) {
    if (++named > 4) break;
    decide(*config, key);
  }
  return 0;
}
