// What does learning from one pod's report cost? Each benchmark checks its answer first.
#include <benchmark/benchmark.h>

#include <optional>
#include <string>
#include <vector>

#include "tailrace/tune/estimator.h"
#include "tailrace/tune/kalman.h"

namespace {

using namespace tailrace;

/// Llama-3.1-8B on an H100; the chain as the filter has it, 256 + 2,560 states and one.
struct Scene {
  queueing::ServiceModel model;
  queueing::Workload workload;
  tune::KalmanState truth{6.49, 0.0219, 4.96e-5};
  tune::KalmanState start{6.3, 0.022, 4.9e-5};
  tune::KalmanMeasurement observed{};

  explicit Scene(double rate_per_s) : workload(queueing::Workload::of(rate_per_s, 512, 128)) {
    model.mode = queueing::Mode::kChain;
    model.limits.max_num_seqs = 256;
    model.limits.max_queue = 2'560;
    observed = predict(truth).value_or(tune::KalmanMeasurement{});
  }
  std::optional<tune::KalmanMeasurement> predict(const tune::KalmanState& x) {
    model.iteration.alpha_ms = x[0];
    model.iteration.beta_ms = x[1];
    model.iteration.gamma_ms = x[2];
    return tune::kalman_prediction(model, workload);
  }
  tune::KalmanStep step() {
    const auto noise = tune::KalmanNoise::of(start, observed);
    return tune::kalman_step(start, noise.process, noise, tune::KalmanBounds::defaults(), observed,
                             [&](const tune::KalmanState& x) { return predict(x); });
  }
};

/// At 18 and 80 % of the saturation rate.
void BM_KalmanStepByTheChain(benchmark::State& state) {
  Scene scene(static_cast<double>(state.range(0)));
  if (scene.step().verdict != tune::KalmanVerdict::kAccepted) {
    state.SkipWithError("the step was not accepted");
    return;
  }
  for (auto _ : state) benchmark::DoNotOptimize(scene.step());
}
BENCHMARK(BM_KalmanStepByTheChain)->Arg(10)->Arg(45)->Unit(benchmark::kMicrosecond);

/// A whole cycle of one pod, with rate and reason.
void BM_KalmanCycle(benchmark::State& state) {
  Scene scene(3);
  tune::TuneConfig config;
  config.estimator = tune::EstimatorKind::kKalman;
  config.limits = scene.model.limits;
  const auto estimator = tune::make_estimator(config).value();
  tune::Observation o;
  o.rate_per_s = scene.workload.rate_per_s;
  o.input_tokens = scene.workload.input_mean;
  o.output_tokens = scene.workload.output_mean;
  o.ttft_ms = scene.observed[0];
  o.itl_ms = scene.observed[1];
  if (!estimator->update({&o, 1}).nis) {
    state.SkipWithError("the cycle was not compared");
    return;
  }
  for (auto _ : state) benchmark::DoNotOptimize(estimator->update({&o, 1}));
}
BENCHMARK(BM_KalmanCycle)->Unit(benchmark::kMicrosecond);

/// A whole cycle of ten pods behind a window that is full, with the interval of rates.
void BM_WindowedCycleOfTenPods(benchmark::State& state) {
  Scene scene(3);
  scene.model.mode = queueing::Mode::kCorrected;
  scene.model.iteration = {.alpha_ms = 6.49, .beta_ms = 0.0219, .gamma_ms = 4.96e-5};
  tune::TuneConfig config;
  config.limits = scene.model.limits;
  config.ttft_ms = 40;
  config.itl_ms = 20;
  const auto estimator = tune::make_estimator(config).value();
  int cycle = 0;
  const auto update = [&] {
    std::vector<tune::Observation> pods(10);
    for (std::size_t i = 0; i < pods.size(); ++i) {
      const int point = (7 * cycle + 13 * static_cast<int>(i)) % 60;
      const auto w = queueing::Workload::of(3 + 0.5 * point, 400 + 5 * point, 128);
      const auto at = latency_unchecked(scene.model, w, queueing::Detail::kMeans);
      tune::Observation& o = pods[i];
      o.time_s = 60.0 * (cycle + 1);
      o.pod = std::string(1, static_cast<char>('a' + i));
      o.rate_per_s = w.rate_per_s;
      o.input_tokens = w.input_mean;
      o.output_tokens = w.output_mean;
      o.ttft_ms = at.ttft_ms.value_or(0) * (1 + 0.01 * (cycle % 3));
      o.itl_ms = at.itl_ms;
      o.running = at.concurrency;
    }
    ++cycle;
    return estimator->update(pods);
  };
  for (int i = 0; i < 20; ++i) {
    if (!update().identified && i > 10) {
      state.SkipWithError("the window does not identify the server");
      return;
    }
  }
  for (auto _ : state) benchmark::DoNotOptimize(update());
}
BENCHMARK(BM_WindowedCycleOfTenPods)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
