#include "capacity/latency_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tailrace/core/check.h"
#include "tailrace/engine/presets.h"
#include "tailrace/simulate/latency_oracle.h"

namespace tailrace::accuracy {
namespace {

using queueing::IterationModel;
using queueing::ServiceLimits;

constexpr double kNu = 3.5, kSigma = 0.75, kMostTimes = 16;  // of the published log-t
constexpr std::int64_t kNoCap = 1'000'000;

IterationModel times(double alpha, double beta, double gamma) {
  IterationModel out;
  out.alpha_ms = alpha;
  out.beta_ms = beta;
  out.gamma_ms = gamma;
  return out;
}

ServiceLimits limits(std::int64_t slots, std::int64_t budget = 0, std::int64_t kv_tokens = 0) {
  ServiceLimits out;
  out.max_num_seqs = slots;
  out.max_batched_tokens = budget;
  out.kv_tokens = kv_tokens;
  return out;
}

const IterationModel kSample = times(8, 0.016, 5e-4);
const IterationModel kH100 = times(6, 0.020, 7.6e-5);
const IterationModel kA100Grid = times(16, 0.048, 9.2e-5);
const IterationModel kA100 = times(10, 0.0685, 9.2e-5);

void add_both(std::vector<Case>& out, Case c) {
  for (const Law law : {Law::kFixed, Law::kLogT}) {
    c.law = law;
    out.push_back(c);
  }
}

Case case_of(std::string name, const IterationModel& iteration, const ServiceLimits& limit,
             double input, double output) {
  Case c;
  c.name = std::move(name);
  c.iteration = iteration;
  c.limits = limit;
  c.input = input;
  c.output = output;
  return c;
}

Case sized(Case c, double ttft_ms, double itl_ms) {
  c.ttft_target_ms = ttft_ms;
  c.itl_target_ms = itl_ms;
  return c;
}

Case preset_case(const std::string& name, double input, double output, double input_cv) {
  const auto preset = engine::find_preset(name);
  TAILRACE_CHECK(preset.has_value());
  const engine::EngineConfig& e = preset->config;
  IterationModel iteration = times(e.cost.alpha_ms, e.cost.beta_ms, e.cost.gamma_ms);
  iteration.knee_tokens = e.cost.knee_tokens;
  Case c = case_of(fmt::format("preset {} {:.0f}/{:.0f}{}", name, input, output,
                               input_cv > 0 ? fmt::format(", prompts of CV {:.0f}", input_cv) : ""),
                   iteration,
                   limits(e.max_num_seqs, e.max_batched_tokens, e.usable_blocks() * e.block_tokens),
                   input, output);
  c.iterations = queueing::Iterations::kOutput;
  c.input_cv = input_cv;
  return c;
}

simulate::LengthTables tables_of(const Case& c) {
  simulate::LengthTables tables =
      simulate::tables_for(queueing::Workload::of(1, c.input, c.output, c.input_cv, 0));
  if (c.law == Law::kLogT) {
    tables.outputs = simulate::log_t_table(c.output, kNu, kSigma, kMostTimes);
  }
  tables.in_turn = false;
  return tables;
}

}  // namespace

std::vector<Case> grid_cases() {
  std::vector<Case> out;
  const auto cap = limits(256);
  add_both(out, case_of("sample 512/128", kSample, cap, 512, 128));
  add_both(out, case_of("sample 2048/512", kSample, cap, 2048, 512));
  add_both(out, case_of("H100-8B 512/128", kH100, cap, 512, 128));
  add_both(out, case_of("H100-8B 2048/512", kH100, cap, 2048, 512));
  add_both(out, case_of("A100-8B 512/128", kA100Grid, cap, 512, 128));
  add_both(out, case_of("sample 512/128, no cap", kSample, limits(kNoCap), 512, 128));
  add_both(out, case_of("H100-8B 512/128, no cap", kH100, limits(kNoCap), 512, 128));
  for (const char* name : {"h100-8b", "a100-8b", "h100-70b-tp4"}) {
    add_both(out, preset_case(name, 512, 128, 0));
  }
  // Prompts of random size, and prompts as long as the token budget.
  add_both(out, preset_case("h100-8b", 2000, 256, 1));
  add_both(out, preset_case("a100-8b", 1000, 256, 1));
  add_both(out, preset_case("a100-8b", 2000, 256, 0));
  add_both(out, preset_case("h100-70b-tp4", 2000, 256, 1));
  return out;
}

std::vector<Case> capacity_cases() {
  std::vector<Case> out;
  const auto cap = limits(256);
  add_both(out, sized(case_of("H100-8B 512/128", kH100, cap, 512, 128), 100, 25));
  add_both(out, sized(case_of("H100-8B 512/128", kH100, cap, 512, 128), 200, 40));
  add_both(out, sized(case_of("H100-8B 2048/512", kH100, cap, 2048, 512), 200, 25));
  add_both(out, sized(case_of("A100-8B 512/128", kA100, cap, 512, 128), 200, 50));
  add_both(out, sized(case_of("sample 512/128", kSample, cap, 512, 128), 100, 40));
  add_both(out, sized(case_of("sample 2048/512", kSample, cap, 2048, 512), 200, 40));
  const std::size_t published = out.size();
  // Chunked prefill: the token budget is shorter than a prompt and the batch.
  add_both(out,
           sized(case_of("chunks of 2048: H100-8B 2048/512", kH100, limits(256, 2048), 2048, 512),
                 200, 25));
  add_both(out,
           sized(case_of("chunks of 512: H100-8B 2048/512", kH100, limits(256, 512), 2048, 512),
                 300, 25));
  add_both(out,
           sized(case_of("long prompts: H100-8B 8192/256", kH100, limits(256, 8192), 8192, 256),
                 1000, 60));
  add_both(out, sized(case_of("memory for 64: H100-8B 2048/512", kH100,
                              limits(256, 8192, 64 * 2560), 2048, 512),
                      400, 40));
  add_both(out, sized(case_of("memory for 128: H100-8B 512/128", kH100,
                              limits(256, 8192, 128 * 640), 512, 128),
                      200, 40));
  Case hit =
      sized(case_of("half cached: H100-8B 2048/512", kH100, limits(256, 8192), 2048, 512), 200, 25);
  hit.prefix_hit = 0.5;
  add_both(out, hit);
  add_both(out,
           sized(case_of("32 slots: H100-8B 512/128", kH100, limits(32, 8192), 512, 128), 100, 25));
  Case random =
      sized(case_of("random prompts (CV 1): H100-8B 512/128", kH100, limits(256, 8192), 512, 128),
            100, 25);
  random.input_cv = 1;
  add_both(out, random);
  Case knee =
      sized(case_of("knee of 200: H100-8B 512/128", kH100, limits(256, 8192), 512, 128), 100, 14);
  knee.iteration.knee_tokens = 200;
  knee.iterations = queueing::Iterations::kOutput;
  add_both(out, knee);
  add_both(out, sized(preset_case("h100-8b", 512, 128, 0), 100, 14));
  add_both(out, sized(preset_case("a100-8b", 512, 128, 0), 200, 25));
  add_both(out, sized(preset_case("h100-70b-tp4", 512, 128, 0), 200, 27));
  for (const double share : {0.25, 0.75}) {
    Case cached = sized(case_of(fmt::format("{:.0f} % cached: H100-8B 2048/512", 100 * share),
                                kH100, limits(256, 8192), 2048, 512),
                        200, 25);
    cached.prefix_hit = share;
    add_both(out, cached);
  }
  for (const std::int64_t slots : {64, 128}) {
    add_both(out, sized(case_of(fmt::format("{} slots: H100-8B 512/128", slots), kH100,
                                limits(slots, 8192), 512, 128),
                        100, slots == 64 ? 11 : 15));
  }
  add_both(out,
           sized(case_of("chunks of 1024: H100-8B 2048/512", kH100, limits(256, 1024), 2048, 512),
                 300, 20));
  add_both(out, sized(case_of("memory for 128, lighter: H100-8B 512/128", kH100,
                              limits(256, 8192, 128 * 640), 512, 128),
                      100, 14));
  add_both(out, sized(case_of("short prompts: H100-8B 128/256", kH100, cap, 128, 256), 60, 15));
  for (std::size_t k = published; k < out.size(); ++k) out[k].own = true;
  return out;
}

queueing::ServiceModel model_of(const Case& c, queueing::Mode mode) {
  queueing::ServiceModel model;
  model.mode = mode;
  model.iteration = c.iteration;
  model.limits = c.limits;
  model.iterations = c.iterations;
  return model;
}

queueing::Workload workload_of(const Case& c, double rate_per_s) {
  return tables_of(c).workload(rate_per_s, c.prefix_hit);
}

simulate::ReplicaSpec replica_of(const Case& c, std::uint64_t seed, std::size_t requests) {
  simulate::ReplicaSpec spec;
  const auto engine = simulate::engine_of(model_of(c, queueing::Mode::kCorrected));
  TAILRACE_CHECK(engine.has_value());
  spec.engine = *engine;
  spec.lengths = tables_of(c);
  if (c.iterations == queueing::Iterations::kOutputPlusOne) {
    for (std::int64_t& tokens : spec.lengths.outputs) ++tokens;
  }
  spec.prefix_hit = c.prefix_hit;
  spec.seed = seed;
  spec.requests_max = requests;
  return spec;
}

Measured largest_rate(const Case& c, std::size_t requests) {
  simulate::ReplicaSpec spec = replica_of(c, 1, requests);
  spec.lengths.in_turn = true;
  const auto got = simulate::saturate_replica(spec);
  TAILRACE_CHECK(got.has_value());
  return {got->rate_per_s, got->error_per_s};
}

Measured capacity(const Case& c, double limit_per_s, int seeds, std::size_t requests) {
  std::vector<double> rates;
  for (int seed = 1; seed <= seeds; ++seed) {
    simulate::ReplicaSpec spec = replica_of(c, 100 + static_cast<std::uint64_t>(seed), requests);
    // ln of the latency that is nearest to its target, over it: grows with the rate.
    const auto excess = [&](double rate) {
      spec.rate_per_s = rate;
      const auto run = simulate::run_replica(spec);
      TAILRACE_CHECK(run.has_value());
      return std::log(std::max(run->ttft_ms / c.ttft_target_ms, run->itl_ms / c.itl_target_ms));
    };
    double low = 0.05 * limit_per_s, high = limit_per_s;
    double at_low = excess(low), at_high = excess(high);
    double rate = at_low > 0 ? 0 : high;
    // The same requests at every rate, so the false position converges; its stale end is halved.
    for (int step = 0; step < 14 && at_low < 0 && at_high > 0; ++step) {
      // Latency grows steeply at the end only: bisect until the ends are near.
      rate = step < 3 ? (low + high) / 2 : low + (high - low) * at_low / (at_low - at_high);
      const double at = excess(rate);
      if (std::abs(at) < 1e-3 || high - low < 1e-4 * high) break;
      if (at < 0) {
        low = rate, at_low = at;
        if (step >= 3) at_high /= 2;
      } else {
        high = rate, at_high = at;
        if (step >= 3) at_low /= 2;
      }
    }
    rates.push_back(rate);
  }
  Measured out;
  for (const double rate : rates) out.value += rate / static_cast<double>(rates.size());
  if (rates.size() > 1) {
    double squares = 0;
    for (const double rate : rates) squares += (rate - out.value) * (rate - out.value);
    const auto n = static_cast<double>(rates.size());
    out.error = std::sqrt(squares / (n * (n - 1)));
  }
  return out;
}

}  // namespace tailrace::accuracy
