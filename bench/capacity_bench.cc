// What does one cycle of the analyzer cost for 1,000 variants with 10 pods each, learning included?
//
// 250 models of four variants each, whose pods report what the corrected model says of their own
// true parameters at loads that change, with 3 % noise. The first cycle, which begins every
// estimator, and the median of those with full windows, with mean targets, with P90 targets and
// with the published filter; as multiples of 1,000 sizings alone in the same process. CPU time of
// one thread. Before a time is printed, every model must have been decided, and the rates per
// replica must be those of the true parameters: half of the variants within 5 %, 95 % within 20 %.
//
//   capacity_bench [--models N] [--json]
#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tailrace/capacity/cycle.h"
#include "tailrace/core/rng.h"
#include "tailrace/core/text.h"

namespace {

using namespace tailrace;
using namespace tailrace::capacity;

constexpr std::size_t kVariants = 4, kPods = 10;
constexpr int kCyclesToFill = 8;  // eighty reports, each of a load of its own, fill a window
constexpr int kCyclesTimed = 5;
constexpr double kNoise = 0.03;
constexpr double kTtftMs = 1'000, kItlMs = 60;

double cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Work>
double seconds_of(const Work& work) {
  const double begin = cpu_s();
  work();
  return cpu_s() - begin;
}

/// A variant's engine as it is, which the analyzer has to find out.
struct Truth {
  queueing::ServiceModel model;
  double input = 0, output = 0;
  double most_per_s = 0;   ///< of one replica
  double sized_per_s = 0;  ///< under the targets
};

struct Fleet {
  std::vector<ModelState> models;
  std::vector<Truth> truths;  ///< of all variants, in the order of the models
};

/// Each around one of the engines that have been measured.
queueing::IterationModel engine_of(std::size_t variant, Rng& rng) {
  static constexpr queueing::IterationModel kMeasured[kVariants] = {
      {6.5, 0.022, 5e-5}, {10.6, 0.042, 5.8e-5}, {12.9, 0.059, 1e-4}, {16, 0.048, 9.2e-5}};
  auto iteration = kMeasured[variant];
  for (double* value : {&iteration.alpha_ms, &iteration.beta_ms, &iteration.gamma_ms}) {
    *value *= std::exp(0.2 * (2 * rng.uniform() - 1));
  }
  return iteration;
}

Fleet make_fleet(std::size_t models, queueing::Statistic statistic, Rng& rng) {
  Fleet fleet;
  for (std::size_t m = 0; m < models; ++m) {
    ModelState model;
    model.key = {"ns", fmt::format("model-{}", m)};
    model.gateway = Backlog{0};
    const double input = 300 + 1'200 * rng.uniform(), output = 80 + 250 * rng.uniform();
    for (std::size_t v = 0; v < kVariants; ++v) {
      Variant variant;
      variant.key = model.key;
      variant.name = fmt::format("variant-{}", v);
      variant.accelerator = fmt::format("gpu-{}", v);
      variant.cost = 10 + static_cast<double>(v);
      variant.current = kPods;
      Truth truth;
      truth.model.iteration = engine_of(v, rng);
      truth.model.limits = variant.limits;
      truth.input = input, truth.output = output;
      const auto w = queueing::Workload::of(0, input, output, 0.5, 0.8);
      truth.most_per_s = queueing::latency(truth.model, w)->max_rate_per_s;
      truth.sized_per_s =
          queueing::size(truth.model, w, {kTtftMs, kItlMs, 0, statistic})->rate_per_s;
      fleet.truths.push_back(truth);
      model.variants.push_back(std::move(variant));
    }
    fleet.models.push_back(std::move(model));
  }
  return fleet;
}

tune::Observation report(const Truth& truth, double time_s, std::size_t pod, Rng& rng) {
  tune::Observation o;
  o.time_s = time_s;
  o.pod = fmt::format("pod-{}", pod);
  const auto noisy = [&rng](double value) { return value * std::exp(kNoise * rng.normal()); };
  o.rate_per_s = truth.most_per_s * (0.1 + 0.7 * rng.uniform());
  o.input_tokens = truth.input * std::exp(0.3 * (2 * rng.uniform() - 1));
  o.output_tokens = truth.output * std::exp(0.1 * (2 * rng.uniform() - 1));
  o.input_cv = 0.5;
  o.output_cv = 0.8;
  const auto at = queueing::latency(
      truth.model,
      queueing::Workload::of(*o.rate_per_s, *o.input_tokens, *o.output_tokens, 0.5, 0.8));
  if (!at->ttft_ms) {
    // Long prompts have taken more than there is: a pod that says nothing.
    o.rate_per_s.reset();
    return o;
  }
  o.ttft_ms = noisy(*at->ttft_ms);
  o.itl_ms = noisy(*at->itl_ms);
  o.running = noisy(*at->concurrency);
  o.requests = 60 * *o.rate_per_s;
  return o;
}

void collect(Fleet& fleet, double time_s, Rng& rng) {
  const Truth* truth = fleet.truths.data();
  for (auto& model : fleet.models) {
    for (auto& variant : model.variants) {
      variant.pods.clear();
      for (std::size_t i = 0; i < kPods; ++i) {
        variant.pods.push_back(report(*truth, time_s, i, rng));
      }
      ++truth;
    }
  }
}

[[noreturn]] void wrong(const std::string& what) {
  fmt::print(stderr, "capacity_bench: {}\n", what);
  std::exit(1);
}

/// Of the rates per replica, sorted.
std::vector<double> errors(const CycleResult& result, const Fleet& fleet) {
  if (result.any_failed()) wrong("a model was not decided");
  if (result.decisions.size() != fleet.truths.size()) wrong("a decision is missing");
  std::vector<double> out;
  const Truth* truth = fleet.truths.data();
  for (const auto& model : result.models) {
    for (const auto& variant : model.variants) {
      if (variant.evidence != Evidence::kSized) wrong("a variant was not sized");
      out.push_back(std::abs(variant.per_replica_per_s / (truth++)->sized_per_s - 1));
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

struct Costs {
  double first_s = 0, steady_s = 0;
  double error_median = 0, error_p95 = 0;
};

Costs measure(Fleet fleet, const CycleConfig& config, bool must_be_right, Rng rng) {
  CycleState state(StabilisationConfig{});
  Costs costs;
  std::vector<double> steady;
  for (int i = 0; i < kCyclesToFill + kCyclesTimed; ++i) {
    const double time_s = 60.0 * i;
    CycleInput input;
    collect(fleet, time_s, rng);
    input.models = fleet.models;
    CycleResult result;
    const double seconds = seconds_of([&] { result = run_cycle(time_s, input, config, state); });
    if (i == 0) costs.first_s = seconds;
    if (i < kCyclesToFill) continue;
    steady.push_back(seconds);
    if (!must_be_right) continue;
    const auto off = errors(result, fleet);
    costs.error_median = quantile(off, 0.5);
    costs.error_p95 = quantile(off, 0.95);
    if (costs.error_median > 0.05 || costs.error_p95 > 0.2) {
      wrong(fmt::format("rates per replica are {:.1f} % off, 95 % of them up to {:.1f} %",
                        100 * costs.error_median, 100 * costs.error_p95));
    }
  }
  costs.steady_s = quantile(steady, 0.5);
  return costs;
}

CycleConfig config_of(std::string_view settings) {
  CycleConfig config;
  const std::vector<ConfigEntry> entries{
      {"default", fmt::format("targetTTFT: {}\ntargetITL: {}\n{}", kTtftMs, kItlMs, settings), 1}};
  config.models = Config::of_entries(entries, "bench");
  if (!config.models.problems().empty()) wrong(config.models.problems().front().message);
  return config;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t models = 250;
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json") {
      json = true;
    } else if (argument == "--models" && i + 1 < argc) {
      const auto parsed = core::parse_int(argv[++i]);
      if (!parsed || *parsed < 5) wrong("--models: give a whole number, at least 5");
      models = static_cast<std::size_t>(*parsed);
    } else {
      fmt::print(stderr, "usage: capacity_bench [--models N] [--json]\n");
      return 2;
    }
  }

  using queueing::Statistic;
  const Fleet means = [&] {
    Rng rng(1);
    return make_fleet(models, Statistic::kMean, rng);
  }();
  const Fleet p90 = [&] {
    Rng rng(1);
    return make_fleet(models, Statistic::kP90, rng);
  }();
  double sum = 0;
  const double sizings_s = seconds_of([&] {
    for (const Truth& truth : means.truths) {
      const auto w = queueing::Workload::of(0, truth.input, truth.output, 0.5, 0.8);
      sum += queueing::size(truth.model, w, {kTtftMs, kItlMs})->rate_per_s;
    }
  });
  if (!(sum > 0)) wrong("a sizing found no rate");

  struct Row {
    std::string name;
    Costs costs;
  };
  const std::vector<Row> rows{
      {"windowed, mean targets", measure(means, config_of(""), true, Rng(2))},
      {"windowed, P90 targets", measure(p90, config_of("percentile: 90\n"), true, Rng(2))},
      // Its own faults make it wrong where load varies; only its cost is asked for.
      {"kalman, chain",
       measure(means, config_of("estimator: kalman\nlatencyModel: chain\n"), false, Rng(2))}};

  const std::size_t variants = means.truths.size();
  if (json) {
    fmt::print(R"({{"variants":{},"pods":{},"sizings_s":{:.4f})", variants, kPods, sizings_s);
    for (const Row& row : rows) {
      fmt::print(R"(,"{}":{{"first_s":{:.4f},"steady_s":{:.4f}}})", row.name, row.costs.first_s,
                 row.costs.steady_s);
    }
    fmt::print("}}\n");
    return 0;
  }
  fmt::print("{} variants, {} pods each; CPU seconds a cycle; × {:.4f} s of sizing them all once\n",
             variants, kPods, sizings_s);
  fmt::print("{:<26}{:>10}{:>8}{:>16}{:>8}{:>20}\n", "", "first", "×", "full windows", "×",
             "rates off (95 %)");
  for (const auto& [name, c] : rows) {
    fmt::print("{:<26}{:>10.3f}{:>8.1f}{:>16.3f}{:>8.1f}", name, c.first_s, c.first_s / sizings_s,
               c.steady_s, c.steady_s / sizings_s);
    if (c.error_p95 > 0) {
      fmt::print("{:>11.1f} % ({:.1f} %)", 100 * c.error_median, 100 * c.error_p95);
    }
    fmt::print("\n");
  }
  return 0;
}
