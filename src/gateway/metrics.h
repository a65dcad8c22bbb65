// How is the gateway doing, in numbers that a monitoring system understands?
//
// Every series is declared in one catalogue (metrics_catalogue.cc), which docs/metrics.md is
// generated from. Labels are bounded: model and backend names count only once `add_model` or
// `add_backend` has announced them (configuration, admin API), everything else is "other". Handles
// are looked up once and kept; an update is one atomic operation. Any thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tailrace/core/metric_catalogue.h"
#include "tailrace/core/time.h"
#include "tailrace/core/token_pace.h"
#include "tailrace/dispatch/dispatcher.h"

namespace tailrace::gateway {

std::span<const core::MetricInfo> metric_catalogue();
std::string metrics_reference();  ///< docs/metrics.md

class Counter {
 public:
  void add(double by = 1);

 private:
  friend class Metrics;
  void* target_ = nullptr;
};
class Gauge {
 public:
  void set(double value);
  void add(double by);

 private:
  friend class Metrics;
  void* target_ = nullptr;
};
/// There only while its value is known.
class OptionalGauge {
 public:
  void set(std::optional<double> value);

 private:
  friend class Metrics;
  void* target_ = nullptr;
  std::function<void*()> add_;
  std::function<void(void*)> remove_;
};
class Histogram {
 public:
  void observe(double value);
  void observe(Duration value) { observe(to_seconds(value)); }

 private:
  friend class Metrics;
  void* target_ = nullptr;
};

enum class RequestOutcome {
  kCompleted,  // a whole answer was relayed, whatever its status
  kFailed,     // the engine failed: 502, a cut or an error inside the stream
  kRefused,    // the queue or admission said no
  kInvalid,    // the client's fault: 400, 404, 413
  kCancelled,  // the client left
  kTimedOut,   // a time-out of ours
};
enum class LeaveState { kReadingBody, kQueued, kConnecting, kFirstByte, kStreaming, kWholeAnswer };
enum class UpstreamError {
  kConnect,
  kReset,
  kFirstByteTimeout,
  kIdleTimeout,
  kBadFraming,
  kStatus
};
enum class PredictionResult { kUsed, kLate, kUncalibrated, kDropped, kGiven };

/// Handles of one model's series.
struct ModelMetrics {
  Gauge queue_jobs, queue_bytes, queue_output_tokens, running_jobs, slots;
  Counter arrivals, relayed, queue_entries;
  Counter prompt_tokens, prompt_tokens_squared, output_tokens, answer_tokens_squared;
  Counter overdue, requeued;
  Histogram wait_seconds, ttft_seconds, itl_seconds, e2e_seconds, answer_tokens, log_error;
  Counter scored, below_p50,
      below_p90;  ///< predictions scored against the truth, and their coverage
  Counter learned_usage, learned_estimate;
};

struct BackendMetrics {
  Gauge running, slots, healthy, streams;
  Counter requests, backoffs;
  OptionalGauge itl, itl_per_stream, itl_per_stream_error;
};

/// Distinct names of models, and of backends, that have series of their own; "other" comes on top.
inline constexpr std::size_t kLabelNamesMax = 1000;

class Metrics {
 public:
  explicit Metrics(std::string_view version);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// Makes a name a label of its own; further ones than kLabelNamesMax count as "other".
  void add_model(std::string_view name);
  void add_backend(std::string_view name);
  /// The handles of a name, or those of "other". The references stay valid.
  ModelMetrics& model(std::string_view name);
  BackendMetrics& backend(std::string_view name);
  /// Of all models and backends, so that those which share a label can be added up.
  void zero_gauges();
  /// Of all backends that have a label of their own: several that share one have no common pace.
  void set_paces(const std::function<std::optional<TokenPace>(std::string_view backend)>& pace_of);

  void count_request(std::string_view model, RequestOutcome outcome, int status);
  void count_refusal(std::string_view model, dispatch::Refusal refusal);
  void count_left(LeaveState state);
  void count_upstream_error(std::string_view backend, UpstreamError kind);
  void count_prediction(PredictionResult result);

  Gauge connections, admin_connections, exchanges, predictions_pending, calibrated, ready;
  Counter predictions_dropped, request_bytes, response_bytes, usage_events_dropped;

  /// The text format, version 0.0.4.
  std::string exposition() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string_view to_string(RequestOutcome outcome);
std::string_view to_string(LeaveState state);
std::string_view to_string(UpstreamError kind);
std::string_view to_string(PredictionResult result);

}  // namespace tailrace::gateway
