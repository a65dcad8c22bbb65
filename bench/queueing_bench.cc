// What does it cost to ask how long requests take, and how many a replica serves?
//
// latency() and size() in every mode, over replicas with a batch of 256 and answers of spread
// lengths, and over harder ones, with a knee or with random prompts that exceed the token budget;
// CPU time, the median and the slowest of the cases, as multiples of the closed form's
// latency() in the same process. Every sizing is checked first: its targets hold at the rate and
// not above. Usage: queueing_bench [--json]
#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "tailrace/queueing/sizing.h"

namespace {

using namespace tailrace::queueing;

constexpr int kRepeats = 9;  // of a case; the quickest counts
constexpr double kEnoughNs = 200'000;

struct Case {
  IterationModel iteration;
  Workload workload;
  std::int64_t max_batched_tokens = ServiceLimits{}.max_batched_tokens;
};

/// Llama-8B and Qwen-14B on H100, Llama-8B on A100, and a slow sample, by shape of the requests.
std::vector<Case> cases() {
  std::vector<Case> out;
  for (const IterationModel& iteration :
       {IterationModel{.alpha_ms = 6, .beta_ms = 0.02, .gamma_ms = 7.6e-5},
        IterationModel{.alpha_ms = 10.645377, .beta_ms = 0.041760195, .gamma_ms = 5.770509e-5},
        IterationModel{.alpha_ms = 16, .beta_ms = 0.048, .gamma_ms = 9.2e-5},
        IterationModel{.alpha_ms = 8, .beta_ms = 0.016, .gamma_ms = 5e-4}}) {
    for (const auto& [input, output, cv] : {std::tuple(512.0, 128.0, 0.0),
                                            {512.0, 128.0, 1.8},
                                            {1024.0, 256.0, 1.0},
                                            {2048.0, 512.0, 1.0},
                                            {128.0, 512.0, 0.7}}) {
      out.push_back({iteration, Workload::of(0, input, output, 0.5, cv)});
    }
  }
  return out;
}

std::vector<Case> hard_cases() {
  std::vector<Case> out;
  for (const Case& one : cases()) {
    if (one.workload.input_mean != 512 && one.workload.input_mean != 2048) continue;
    const double input = one.workload.input_mean, output = one.workload.output_mean;
    const double cv = one.workload.output_cv();
    for (const double knee : {0.0, 200.0}) {
      Case hard = one;
      hard.iteration.knee_tokens = knee;
      hard.workload = Workload::of(0, input, output, 1, cv);
      hard.max_batched_tokens = static_cast<std::int64_t>(input);
      out.push_back(hard);
      hard.max_batched_tokens = Case{}.max_batched_tokens;
      out.push_back(hard);
    }
  }
  return out;
}

ServiceModel model_of(const Case& c, Mode mode) {
  ServiceModel model;
  model.mode = mode;
  model.iteration = c.iteration;
  model.limits.max_batched_tokens = c.max_batched_tokens;
  return model;
}

double cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

double sink = 0;  // what is computed here is used, so no compiler leaves it out

double ns_per_call(const std::function<double()>& call) {
  int calls = 1;
  double best = 1e300;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const double start = cpu_ns();
    for (int i = 0; i < calls; ++i) sink += call();
    const double spent = cpu_ns() - start;
    best = std::min(best, spent / calls);
    calls = std::max(calls, static_cast<int>(kEnoughNs / std::max(1.0, best)));
  }
  return best;
}

struct Cost {
  std::string what;
  double median_us = 0, slowest_us = 0;
};

using Call = std::function<double()>;

/// `make` prepares a case; only what it returns is timed.
Cost cost_of(const std::string& what, const std::vector<Case>& of,
             const std::function<Call(const Case&)>& make) {
  std::vector<double> us;
  for (const Case& c : of) us.push_back(1e-3 * ns_per_call(make(c)));
  std::sort(us.begin(), us.end());
  return {what, us[us.size() / 2], us.back()};
}

double max_rate(const Case& c, Mode mode) {
  return latency(model_of(c, mode), c.workload).value().max_rate_per_s;
}

Cost latency_cost(const std::string& what, Mode mode, Detail detail,
                  const std::vector<Case>& of = cases()) {
  return cost_of(what, of, [mode, detail](const Case& c) {
    Workload at = c.workload;
    at.rate_per_s = 0.6 * max_rate(c, Mode::kCorrected);
    const ServiceModel model = model_of(c, mode);
    return [model, at, detail] { return latency(model, at, detail).value().ttft_ms.value_or(0); };
  });
}

double of(const std::optional<double>& mean, const std::optional<Percentiles>& p, Statistic s) {
  return s == Statistic::kMean ? *mean : s == Statistic::kP90 ? p->p90 : p->p99;
}

/// What the replica has at 0.8 of its largest rate, TTFT a little more.
Targets targets_of(const Case& c, Mode mode, Statistic statistic) {
  Workload at = c.workload;
  at.rate_per_s = 0.8 * max_rate(c, mode);
  const Latency l = latency(model_of(c, mode), at,
                            statistic == Statistic::kMean ? Detail::kMeans : Detail::kPercentiles)
                        .value();
  return {.ttft_ms = 1.1 * of(l.ttft_ms, l.ttft_percentiles_ms, statistic),
          .itl_ms = of(l.itl_ms, l.itl_percentiles_ms, statistic),
          .e2e_ms = 1.05 * of(l.e2e_ms, l.e2e_percentiles_ms, statistic),
          .statistic = statistic};
}

/// Sizing for what a rate of 0.8 has must find that rate again; percentiles, what it is bound to.
bool finds_the_rate(Mode mode, Statistic statistic) {
  std::vector<Case> all = cases();
  if (mode == Mode::kCorrected) {
    for (const Case& c : hard_cases()) all.push_back(c);
  }
  for (const Case& c : all) {
    const Targets targets = targets_of(c, mode, statistic);
    const Sizing found = size(model_of(c, mode), c.workload, targets).value();
    const double wanted = 0.8 * max_rate(c, mode);
    const double allowed = statistic == Statistic::kMean ? 1e-6 : 0.01;
    if (std::abs(found.rate_per_s / wanted - 1) < allowed) continue;
    fmt::print(stderr, "queueing_bench: {} sizes to {:.6g} requests/s instead of {:.6g}\n",
               to_string(mode), found.rate_per_s, wanted);
    return false;
  }
  return true;
}

Cost size_cost(const std::string& what, Mode mode, Statistic statistic,
               const std::vector<Case>& of = cases()) {
  return cost_of(what, of, [mode, statistic](const Case& c) {
    const ServiceModel model = model_of(c, mode);
    const Targets targets = targets_of(c, mode, statistic);
    return [model, targets, workload = c.workload] {
      return size(model, workload, targets).value().rate_per_s;
    };
  });
}

}  // namespace

int main(int argc, char** argv) {
  const bool json = argc > 1 && std::strcmp(argv[1], "--json") == 0;
  for (const auto& [mode, statistic] : {std::pair(Mode::kClosedForm, Statistic::kMean),
                                        {Mode::kChain, Statistic::kMean},
                                        {Mode::kCorrected, Statistic::kMean},
                                        {Mode::kCorrected, Statistic::kP90},
                                        {Mode::kCorrected, Statistic::kP99}}) {
    if (!finds_the_rate(mode, statistic)) return 1;
  }
  const std::vector<Cost> costs{
      latency_cost("latency, closed form", Mode::kClosedForm, Detail::kMeans),
      latency_cost("latency, chain", Mode::kChain, Detail::kMeans),
      latency_cost("latency, corrected", Mode::kCorrected, Detail::kMeans),
      latency_cost("latency, corrected, percentiles", Mode::kCorrected, Detail::kPercentiles),
      size_cost("size, closed form, 3 means", Mode::kClosedForm, Statistic::kMean),
      size_cost("size, chain, 3 means", Mode::kChain, Statistic::kMean),
      size_cost("size, corrected, 3 means", Mode::kCorrected, Statistic::kMean),
      size_cost("size, corrected, 3 P90", Mode::kCorrected, Statistic::kP90),
      size_cost("size, corrected, 3 P99", Mode::kCorrected, Statistic::kP99),
      latency_cost("hard latency, corrected", Mode::kCorrected, Detail::kMeans, hard_cases()),
      latency_cost("hard latency, percentiles", Mode::kCorrected, Detail::kPercentiles,
                   hard_cases()),
      size_cost("hard size, 3 means", Mode::kCorrected, Statistic::kMean, hard_cases()),
      size_cost("hard size, 3 P90", Mode::kCorrected, Statistic::kP90, hard_cases()),
      size_cost("hard size, 3 P99", Mode::kCorrected, Statistic::kP99, hard_cases())};
  const double baseline = costs.front().median_us;
  if (!json) {
    fmt::print("{:<34}{:>12}{:>12}{:>12}\n", "", "median µs", "slowest µs", "× first");
  }
  std::string fields;
  for (const Cost& cost : costs) {
    if (json) {
      fields +=
          fmt::format("{}\"{}\":{{\"median_us\":{},\"slowest_us\":{},\"over_closed_form\":{}}}",
                      fields.empty() ? "" : ",", cost.what, cost.median_us, cost.slowest_us,
                      cost.median_us / baseline);
    } else {
      fmt::print("{:<34}{:>12.3f}{:>12.3f}{:>12.1f}\n", cost.what, cost.median_us, cost.slowest_us,
                 cost.median_us / baseline);
    }
  }
  if (json) fmt::print("{{{}}}\n", fields);
  return sink != 0 ? 0 : 1;
}
