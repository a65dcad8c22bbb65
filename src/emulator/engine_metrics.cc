#include "emulator/engine_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace tailrace::emulator {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;
using prometheus::Registry;

// vLLM's bucket bounds.
const Histogram::BucketBoundaries kTtftBounds{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                              0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                              20,    40,    80,   160,  640,  2560};
const Histogram::BucketBoundaries kTokenBounds{
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
const Histogram::BucketBoundaries kRequestBounds{
    0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const Histogram::BucketBoundaries kLengthBounds{1,   2,    5,    10,   20,    50,    100,   200,
                                                500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
const Histogram::BucketBoundaries kBatchBounds{1,   8,   16,   32,   64,   128,
                                               256, 512, 1024, 2048, 4096, 8192};

Counter& counter(Registry& registry, const std::string& name, const std::string& help,
                 const Labels& labels) {
  return BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
}
Gauge& gauge(Registry& registry, const std::string& name, const std::string& help,
             const Labels& labels) {
  return BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
}
Histogram& histogram(Registry& registry, const std::string& name, const std::string& help,
                     const Labels& labels, const Histogram::BucketBoundaries& bounds) {
  return BuildHistogram().Name(name).Help(help).Register(registry).Add(labels, bounds);
}

Labels with(Labels labels, const std::string& name, const std::string& value) {
  labels.emplace(name, value);
  return labels;
}

}  // namespace

struct EngineMetrics::Series {
  explicit Series(const Labels& own) : labels(own) {}

  Registry registry;
  Labels labels;
  Gauge& running = gauge(registry, "vllm:num_requests_running", "Sequences in the batch", labels);
  Gauge& waiting = gauge(registry, "vllm:num_requests_waiting", "Sequences that wait", labels);
  Gauge& kv = gauge(registry, "vllm:kv_cache_usage_perc", "KV cache in use, 0 to 1", labels);
  Counter& preemptions =
      counter(registry, "vllm:num_preemptions_total", "Preemptions by recomputation", labels);
  Counter& prefix_asked = counter(registry, "vllm:prefix_cache_queries_total",
                                  "Prompt tokens looked up in the prefix cache", labels);
  Counter& prefix_hit = counter(registry, "vllm:prefix_cache_hits_total",
                                "Prompt tokens found in the prefix cache", labels);
  Counter& prompt_tokens =
      counter(registry, "vllm:prompt_tokens_total", "Prompt tokens of accepted requests", labels);
  Counter& generation_tokens =
      counter(registry, "vllm:generation_tokens_total", "Generated tokens", labels);
  Counter& stopped = counter(registry, "vllm:request_success_total", "Finished requests",
                             with(labels, "finished_reason", "stop"));
  Counter& cut = counter(registry, "vllm:request_success_total", "Finished requests",
                         with(labels, "finished_reason", "length"));
  Counter& aborted = counter(registry, "vllm:request_success_total", "Finished requests",
                             with(labels, "finished_reason", "abort"));
  Counter& refused = counter(registry, "tailrace_emulator_refused_total",
                             "Requests answered 503 because the queue was full", labels);
  Histogram& ttft = histogram(registry, "vllm:time_to_first_token_seconds",
                              "Emulated seconds to the first token", labels, kTtftBounds);
  Histogram& itl = histogram(registry, "vllm:inter_token_latency_seconds",
                             "Emulated seconds between tokens", labels, kTokenBounds);
  Histogram& end_to_end = histogram(registry, "vllm:e2e_request_latency_seconds",
                                    "Emulated seconds to the end", labels, kRequestBounds);
  Histogram& queued =
      histogram(registry, "vllm:request_queue_time_seconds",
                "Emulated seconds until it first entered the batch", labels, kRequestBounds);
  Histogram& prefill =
      histogram(registry, "vllm:request_prefill_time_seconds",
                "Emulated seconds from the batch to the first token", labels, kRequestBounds);
  Histogram& decode =
      histogram(registry, "vllm:request_decode_time_seconds",
                "Emulated seconds from the first token to the last", labels, kRequestBounds);
  Histogram& inference =
      histogram(registry, "vllm:request_inference_time_seconds",
                "Emulated seconds from the batch to the last token", labels, kRequestBounds);
  Histogram& prompt_lengths = histogram(registry, "vllm:request_prompt_tokens",
                                        "Prompt tokens of a request", labels, kLengthBounds);
  Histogram& answer_lengths = histogram(registry, "vllm:request_generation_tokens",
                                        "Generated tokens of a request", labels, kLengthBounds);
  Histogram& batch = histogram(registry, "vllm:iteration_tokens_total",
                               "Tokens computed in an iteration", labels, kBatchBounds);
  Counter& iterations = counter(registry, "tailrace_emulator_iterations_total",
                                "Completed engine iterations", labels);
  Gauge& lag = gauge(registry, "tailrace_emulator_lag_seconds",
                     "Real seconds by which the last iteration was late", labels);
  Gauge& lag_max = gauge(registry, "tailrace_emulator_lag_seconds_max",
                         "Real seconds by which the latest iteration ever was late", labels);
  Counter& caught_up = counter(registry, "tailrace_emulator_caught_up_iterations_total",
                               "Iterations that shared a turn with an earlier one", labels);
};

EngineMetrics::EngineMetrics(const std::string& model_name, const engine::EngineConfig& config)
    : series_(std::make_unique<Series>(Labels{{"engine", "0"}, {"model_name", model_name}})) {
  const Labels facts{{"engine", "0"},
                     {"block_size", std::to_string(config.block_tokens)},
                     {"num_gpu_blocks", std::to_string(config.kv_blocks)},
                     {"enable_prefix_caching", config.prefix_caching ? "True" : "False"}};
  gauge(series_->registry, "vllm:cache_config_info", "The KV cache's configuration", facts).Set(1);
}
EngineMetrics::~EngineMetrics() = default;

void EngineMetrics::prompt_started(std::int64_t prompt_tokens) {
  series_->prompt_tokens.Increment(static_cast<double>(prompt_tokens));
  series_->prompt_lengths.Observe(static_cast<double>(prompt_tokens));
}
void EngineMetrics::first_token(Duration since_arrival) {
  series_->generation_tokens.Increment();
  series_->ttft.Observe(to_seconds(since_arrival));
}
void EngineMetrics::next_token(Duration since_last) {
  series_->generation_tokens.Increment();
  series_->itl.Observe(to_seconds(since_last));
}
void EngineMetrics::iteration(std::int64_t batch_tokens) {
  series_->batch.Observe(static_cast<double>(batch_tokens));
}
void EngineMetrics::finished(const FinishedRequest& request) {
  (request.cut ? series_->cut : series_->stopped).Increment();
  series_->end_to_end.Observe(to_seconds(request.end_to_end));
  series_->queued.Observe(to_seconds(request.queued));
  series_->prefill.Observe(to_seconds(request.prefill));
  series_->decode.Observe(to_seconds(request.decode));
  series_->inference.Observe(to_seconds(request.prefill + request.decode));
  series_->answer_lengths.Observe(static_cast<double>(request.generated_tokens));
}
void EngineMetrics::aborted() {
  series_->aborted.Increment();
}
void EngineMetrics::refused() {
  series_->refused.Increment();
}

std::string EngineMetrics::text(const engine::EngineState& state, const DriverLag& lag) const {
  const auto raise_to = [](Counter& counter, std::uint64_t total) {
    counter.Increment(static_cast<double>(total) - counter.Value());
  };
  series_->running.Set(static_cast<double>(state.running));
  series_->waiting.Set(static_cast<double>(state.waiting));
  series_->kv.Set(static_cast<double>(state.kv_used.count()) /
                  static_cast<double>(state.kv_capacity.count()));
  series_->lag.Set(to_seconds(lag.last));
  series_->lag_max.Set(to_seconds(lag.max));
  raise_to(series_->preemptions, state.preemptions);
  raise_to(series_->prefix_asked, static_cast<std::uint64_t>(state.prefix_asked.count()));
  raise_to(series_->prefix_hit, static_cast<std::uint64_t>(state.prefix_hit.count()));
  raise_to(series_->iterations, state.iterations);
  raise_to(series_->caught_up, lag.caught_up);
  return prometheus::TextSerializer().Serialize(series_->registry.Collect());
}

}  // namespace tailrace::emulator
