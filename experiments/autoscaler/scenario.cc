#include "autoscaler/scenario.h"

#include <fmt/format.h>

#include "tailrace/core/check.h"
#include "tailrace/engine/presets.h"

namespace tailrace::scenario {
namespace {

autoscaler::SimulatedVariant variant(const std::string& name, std::string_view preset, int slots,
                                     double cost, int engines) {
  autoscaler::SimulatedVariant out;
  out.engines.name = name;
  out.engines.engine = engine::find_preset(preset)->config;
  out.engines.engine.max_num_seqs = slots;
  out.engines.initial = engines;
  out.engines.startup = from_seconds(kStartupSeconds);
  out.accelerator = name;
  out.cost = cost;
  return out;
}

simulate::WorkloadSpec workload() {
  simulate::WorkloadSpec out;
  out.arrivals.kind = simulate::ArrivalSpec::Kind::kProfile;
  out.lengths.kind = simulate::LengthSpec::Kind::kLogT;
  out.lengths.mu_mean = 5.9;
  out.lengths.mu_sd = 0.6;
  out.lengths.sigma_median = 0.4;
  out.lengths.cap = 4'096;
  out.prompts.kind = simulate::PromptSpec::Kind::kLogNormal;
  out.prompts.mean = 128;
  out.prompts.cv = 0.7;
  out.prompts.most = 2'048;
  return out;
}

}  // namespace

std::vector<Segment> segments() {
  return {{"base", 0, 600, true},
          {"ramp", 600, 1'200, false},
          {"plateau", 1'200, 2'400, true},
          {"fall", 2'400, 2'520, false},
          {"lull", 2'520, 3'600, true}};
}

double duration_s() {
  return segments().back().to_s;
}

std::vector<simulate::RatePoint> profile() {
  const auto s = segments();
  return {{0, kBaseRate},
          {s[1].from_s, kBaseRate},
          {s[1].to_s, kPeakRate},
          {s[3].from_s, kPeakRate},
          {s[3].to_s, kBaseRate}};
}

std::vector<autoscaler::SimulatedVariant> variants(int tp4, int tp8) {
  return {variant("tp4", "h100-70b-tp4", 64, 4, tp4), variant("tp8", "h100-70b-tp8", 64, 9, tp8)};
}

autoscaler::SimulatedFleet fleet(std::uint64_t seed) {
  autoscaler::SimulatedFleet out;
  out.variants = variants(3, 1);
  out.variants[0].max = 4;
  out.run.workload = workload();
  out.run.workload.arrivals.profile = profile();
  out.run.dispatch.policy = "fcfs";
  out.run.cycle_s = kCycleSeconds;
  out.run.duration_s = duration_s();
  out.run.seed = seed;
  return out;
}

autoscaler::SimulatedFleet constant_fleet(double rate, double seconds, int tp4, int tp8,
                                          std::uint64_t seed) {
  autoscaler::SimulatedFleet out = fleet(seed);
  out.variants[0].engines.initial = tp4;
  out.variants[1].engines.initial = tp8;
  out.run.workload.arrivals.profile = {{0, rate}};
  out.run.duration_s = seconds;
  return out;
}

std::string settings_text() {
  return fmt::format(R"(default:
  targetTTFT: {}
  targetITL: {}
  percentile: 99
  startupTime: {:g}s
  scaleUpThreshold: 0.95
  scaleDownThreshold: 0.85
  stabilisation: {{downWindow: 2m}}
)",
                     kTtftMs, kItlMs, kStartupSeconds);
}

std::string published_text() {
  return fmt::format(R"(default:
  targetTTFT: {}
  targetITL: {}
  estimator: kalman
  latencyModel: chain
  assembly: published
  stabilisation: {{}}
)",
                     kTtftMs, kItlMs);
}

std::string preface() {
  return fmt::format(R"(# The autoscaler on a fixed load

`make autoscaler` prints this page. The loop that production runs (`autoscaler::Brain` over
`capacity::run_cycle`) decides every {:g} s for a simulated fleet, from rates and means that are made
of the engines' counters. Replicas take {:g} s to start, and end their requests before they go.
Requests wait in the gateway's one queue, first come, first served.

- **Load.** {:g} requests/s for ten minutes, a ramp to {:g} in ten, a plateau of twenty, a fall to {:g}
  in two, a lull of eighteen. Poisson arrivals; answers log-t (ν 3.5, mean 515 tokens, cut at 4096),
  prompts log-normal with a mean of 128.
- **Variants.** `tp4` (preset h100-70b-tp4, cost 4, at most {} replicas) and `tp8` (h100-70b-tp8, cost
  9), 64 sequences each. One `tp4` carries some 6 requests/s alone, one `tp8` 10.5.
- **Targets.** P99 of TTFT {:g} ms, of ITL {:g} ms. A prompt alone takes 15 to 25 ms and a full batch
  17 ms a token, so both variants can keep them, and what ends a replica's rate is the wait for a
  place: a second or two is what a person waits for a first word. A request meets them if its own
  TTFT and its own mean time between tokens do; goodput is the share of all that came, in %.
- **Clairvoyant.** The cheapest mix that keeps the targets at the highest rate from now to {:g} s
  ahead. What a mix keeps was measured in the same simulator (`build/bin/autoscaler_scenario
  --table`, some minutes): the largest constant rate at which 99 % meet both targets.
  Replica-seconds, start-up and draining included, and cost are given as multiples of the
  clairvoyant's.

Settings:

```yaml
{}```
)",
                     kCycleSeconds, kStartupSeconds, kBaseRate, kPeakRate, kBaseRate, 4, kTtftMs,
                     kItlMs, kStartupSeconds, settings_text());
}

capacity::CycleConfig settings(const std::string& text) {
  auto config = capacity::Config::parse(text, "scenario");
  TAILRACE_CHECK(config.has_value());
  TAILRACE_CHECK(config->problems().empty());
  capacity::CycleConfig out;
  out.optimizer = config->fleet().optimizer;
  out.models = std::move(*config);
  return out;
}

}  // namespace tailrace::scenario
