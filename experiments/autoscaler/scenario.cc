#include "autoscaler/scenario.h"

#include <fmt/format.h>

#include <utility>

#include "tailrace/core/check.h"
#include "tailrace/engine/presets.h"

namespace tailrace::scenario {
namespace {

autoscaler::SimulatedVariant variant(const Kind& kind, int engines) {
  autoscaler::SimulatedVariant out;
  out.engines.name = kind.name;
  out.engines.engine = engine::find_preset(kind.preset)->config;
  out.engines.engine.max_num_seqs = kind.slots;
  out.engines.initial = engines;
  out.engines.startup = from_seconds(kStartupSeconds);
  out.accelerator = kind.name;
  out.cost = kind.cost;
  out.min = kind.min;
  return out;
}

simulate::WorkloadSpec workload(const Scenario& scenario) {
  simulate::WorkloadSpec out;
  out.arrivals.kind = simulate::ArrivalSpec::Kind::kProfile;
  out.arrivals.profile = scenario.profile();
  out.lengths.kind = simulate::LengthSpec::Kind::kLogT;
  out.lengths.mu_mean = scenario.length_mu;
  out.lengths.mu_sd = 0.6;
  out.lengths.sigma_median = 0.4;
  out.lengths.cap = scenario.length_cap;
  out.prompts.kind = simulate::PromptSpec::Kind::kLogNormal;
  out.prompts.mean = 128;
  out.prompts.cv = 0.7;
  out.prompts.most = 2'048;
  return out;
}

Scenario make_simulated() {
  Scenario out;
  out.kinds = {{{"tp4", "h100-70b-tp4", 4, 64}, {"tp8", "h100-70b-tp8", 9, 64}}};
  out.base_rate = 17, out.peak_rate = 68;
  out.length_mu = 5.9, out.length_mean = 515, out.length_cap = 4'096;
  out.initial = {3, 1};
  out.seconds = {600, 600, 1'200, 120, 1'080};
  out.largest_rates = {{
      {0.00, 10.53, 22.47, 34.27, 46.25, 58.28, 70.22},
      {5.95, 17.39, 29.50, 41.23, 53.28, 65.25, 77.62},
      {13.00, 24.64, 36.34, 48.45, 60.25, 72.64, 84.88},
      {19.69, 31.39, 43.38, 55.45, 67.62, 79.89, 91.88},
      {26.88, 38.44, 50.38, 62.58, 74.56, 86.91, 98.94},
  }};
  return out;
}

Scenario make_real() {
  Scenario out;
  out.kinds = {{{"a100", "a100-70b-tp4", 4, 6, 1}, {"h100", "h100-70b-tp4", 9, 6, 1}}};
  out.base_rate = 3.6, out.peak_rate = 14.4;
  out.length_mu = 4.6, out.length_mean = 140, out.length_cap = 1'024;
  out.initial = {2, 1};
  out.seconds = {300, 600, 600, 120, 780};
  out.largest_rates = {{
      {0.00, 1.38, 4.32, 6.93, 9.78, 12.05, 14.80},
      {0.85, 3.31, 5.78, 8.66, 10.88, 13.63, 16.30},
      {2.15, 4.71, 7.46, 10.15, 12.48, 15.18, 17.88},
      {3.70, 6.28, 9.04, 11.25, 14.07, 16.68, 19.50},
      {5.11, 7.94, 10.53, 13.03, 15.49, 18.35, 21.14},
  }};
  return out;
}

}  // namespace

const Scenario& simulated_scenario() {
  static const Scenario scenario = make_simulated();
  return scenario;
}

const Scenario& real_scenario() {
  static const Scenario scenario = make_real();
  return scenario;
}

std::vector<Segment> Scenario::segments() const {
  static constexpr std::array<std::pair<const char*, bool>, 5> kNames{
      {{"base", true}, {"ramp", false}, {"plateau", true}, {"fall", false}, {"lull", true}}};
  std::vector<Segment> out;
  double from_s = 0;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    out.push_back({kNames[i].first, from_s, from_s + seconds[i], kNames[i].second});
    from_s += seconds[i];
  }
  return out;
}

std::vector<simulate::RatePoint> Scenario::profile() const {
  const auto s = segments();
  return {{0, base_rate},
          {s[1].from_s, base_rate},
          {s[1].to_s, peak_rate},
          {s[3].from_s, peak_rate},
          {s[3].to_s, base_rate}};
}

std::vector<autoscaler::SimulatedVariant> Scenario::variants(const Mix& mix) const {
  return {variant(kinds[0], mix.first), variant(kinds[1], mix.second)};
}

autoscaler::SimulatedFleet Scenario::fleet(std::uint64_t seed) const {
  autoscaler::SimulatedFleet out;
  out.variants = variants(initial);
  out.variants[0].max = kFirstMax;
  out.run.workload = workload(*this);
  out.run.dispatch.policy = "fcfs";
  out.run.cycle_s = kCycleSeconds;
  out.run.duration_s = duration_s();
  out.run.seed = seed;
  return out;
}

autoscaler::SimulatedFleet Scenario::constant_fleet(double rate, double length_s, const Mix& mix,
                                                    std::uint64_t seed) const {
  autoscaler::SimulatedFleet out = fleet(seed);
  out.variants[0].engines.initial = mix.first;
  out.variants[1].engines.initial = mix.second;
  out.run.workload.arrivals.profile = {{0, rate}};
  out.run.duration_s = length_s;
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
  const Scenario& of = simulated_scenario();
  return fmt::format(R"(# The autoscaler on a fixed load

`make autoscaler` writes this page. The loop that production runs (`autoscaler::Brain` over
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
                     kCycleSeconds, kStartupSeconds, of.base_rate, of.peak_rate, of.base_rate,
                     kFirstMax, kTtftMs, kItlMs, kStartupSeconds, settings_text());
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
