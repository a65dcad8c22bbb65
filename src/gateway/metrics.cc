#include "gateway/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <map>
#include <mutex>
#include <utility>

#include "gateway/error_body.h"
#include "gateway/metrics_catalogue.h"
#include "tailrace/core/check.h"

namespace tailrace::gateway {
namespace {

constexpr std::string_view kOther = "other";
constexpr std::size_t kFamilies = static_cast<std::size_t>(MetricId::kCount);

using Buckets = prometheus::Histogram::BucketBoundaries;

Buckets seconds_from_millis() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
          1,     2.5,    5,     10,   30,    60,   120, 300,  900};
}
Buckets seconds_between_tokens() {
  return {0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05,
          0.075, 0.1,    0.15,  0.25, 0.5,   1,    2.5,  10};
}
Buckets token_counts() {
  Buckets buckets;
  for (double tokens = 1; tokens <= 131072; tokens *= 2) buckets.push_back(tokens);
  return buckets;
}
/// Of absolute values: e^0.05 is 5 % off, e^0.7 a factor of 2, e^3 of 20.
Buckets absolute_log_ratios() {
  return {0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1, 1.25, 1.5, 2, 3, 5};
}

const Buckets& buckets_of(MetricId id) {
  static const Buckets kItl = seconds_between_tokens();
  static const Buckets kTokens = token_counts();
  static const Buckets kLogError = absolute_log_ratios();
  static const Buckets kSeconds = seconds_from_millis();
  switch (id) {
    case MetricId::kItl:
      return kItl;
    case MetricId::kAnswerTokens:
      return kTokens;
    case MetricId::kLogError:
      return kLogError;
    default:
      return kSeconds;
  }
}

std::string status_class(int status) {
  if (status < 100 || status > 599) return "none";
  return std::to_string(status / 100) + "xx";
}

}  // namespace

void Counter::add(double by) {
  static_cast<prometheus::Counter*>(target_)->Increment(by);
}
void Gauge::set(double value) {
  static_cast<prometheus::Gauge*>(target_)->Set(value);
}
void Gauge::add(double by) {
  static_cast<prometheus::Gauge*>(target_)->Increment(by);
}
void OptionalGauge::set(std::optional<double> value) {
  if (!value) {
    if (target_ != nullptr) remove_(std::exchange(target_, nullptr));
    return;
  }
  if (target_ == nullptr) target_ = add_();
  static_cast<prometheus::Gauge*>(target_)->Set(*value);
}
void Histogram::observe(double value) {
  static_cast<prometheus::Histogram*>(target_)->Observe(value);
}

struct Metrics::Impl {
  prometheus::Registry registry;
  std::array<prometheus::Family<prometheus::Counter>*, kFamilies> counters{};
  std::array<prometheus::Family<prometheus::Gauge>*, kFamilies> gauges{};
  std::array<prometheus::Family<prometheus::Histogram>*, kFamilies> histograms{};
  mutable std::mutex mutex;  // names may be added while another thread looks one up
  std::map<std::string, ModelMetrics, std::less<>> models;
  std::map<std::string, BackendMetrics, std::less<>> backends;

  Impl() {
    const auto catalogue = metric_catalogue();
    for (std::size_t i = 0; i < kFamilies; ++i) {
      const std::string name(catalogue[i].name);
      const std::string help(catalogue[i].help);
      if (catalogue[i].type == "counter") {
        counters[i] = &prometheus::BuildCounter().Name(name).Help(help).Register(registry);
      } else if (catalogue[i].type == "gauge") {
        gauges[i] = &prometheus::BuildGauge().Name(name).Help(help).Register(registry);
      } else {
        histograms[i] = &prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
      }
    }
  }

  void bind(Counter& handle, MetricId id, const prometheus::Labels& labels = {}) {
    auto* family = counters[static_cast<std::size_t>(id)];
    TAILRACE_CHECK(family != nullptr);
    handle.target_ = &family->Add(labels);
  }
  void bind(Gauge& handle, MetricId id, const prometheus::Labels& labels = {}) {
    auto* family = gauges[static_cast<std::size_t>(id)];
    TAILRACE_CHECK(family != nullptr);
    handle.target_ = &family->Add(labels);
  }
  void bind(OptionalGauge& handle, MetricId id, const prometheus::Labels& labels) {
    auto* family = gauges[static_cast<std::size_t>(id)];
    TAILRACE_CHECK(family != nullptr);
    handle.add_ = [family, labels] { return &family->Add(labels); };
    handle.remove_ = [family](void* gauge) {
      family->Remove(static_cast<prometheus::Gauge*>(gauge));
    };
  }
  void bind(Histogram& handle, MetricId id, const prometheus::Labels& labels = {}) {
    auto* family = histograms[static_cast<std::size_t>(id)];
    TAILRACE_CHECK(family != nullptr);
    handle.target_ = &family->Add(labels, buckets_of(id));
  }
  void count(MetricId id, const prometheus::Labels& labels) {
    counters[static_cast<std::size_t>(id)]->Add(labels).Increment();
  }

  ModelMetrics make_model(const std::string& name) {
    const prometheus::Labels labels{{"model", name}};
    const auto with = [&](const char* key, const char* value) {
      return prometheus::Labels{{"model", name}, {key, value}};
    };
    ModelMetrics m;
    bind(m.arrivals, MetricId::kArrivals, labels);
    bind(m.relayed, MetricId::kRelayed, labels);
    bind(m.queue_entries, MetricId::kQueueEntries, labels);
    bind(m.queue_jobs, MetricId::kQueueJobs, labels);
    bind(m.queue_output_tokens, MetricId::kQueueOutputTokens, labels);
    bind(m.queue_bytes, MetricId::kQueueBytes, labels);
    bind(m.running_jobs, MetricId::kRunningJobs, labels);
    bind(m.slots, MetricId::kSlots, labels);
    bind(m.prompt_tokens, MetricId::kPromptTokens, labels);
    bind(m.prompt_tokens_squared, MetricId::kPromptTokensSquared, labels);
    bind(m.output_tokens, MetricId::kOutputTokens, labels);
    bind(m.overdue, MetricId::kOverdue, labels);
    bind(m.requeued, MetricId::kRequeued, labels);
    bind(m.wait_seconds, MetricId::kWait, labels);
    bind(m.ttft_seconds, MetricId::kTtft, labels);
    bind(m.itl_seconds, MetricId::kItl, labels);
    bind(m.e2e_seconds, MetricId::kE2e, labels);
    bind(m.answer_tokens, MetricId::kAnswerTokens, labels);
    bind(m.answer_tokens_squared, MetricId::kAnswerTokensSquared, labels);
    bind(m.log_error, MetricId::kLogError, labels);
    bind(m.scored, MetricId::kScored, labels);
    bind(m.below_p50, MetricId::kCovered, with("quantile", "0.5"));
    bind(m.below_p90, MetricId::kCovered, with("quantile", "0.9"));
    bind(m.learned_usage, MetricId::kLearned, with("source", "usage"));
    bind(m.learned_estimate, MetricId::kLearned, with("source", "estimate"));
    return m;
  }

  BackendMetrics make_backend(const std::string& name) {
    const prometheus::Labels labels{{"backend", name}};
    BackendMetrics b;
    bind(b.running, MetricId::kBackendRunning, labels);
    bind(b.slots, MetricId::kBackendSlots, labels);
    bind(b.healthy, MetricId::kBackendHealthy, labels);
    bind(b.requests, MetricId::kBackendRequests, labels);
    bind(b.backoffs, MetricId::kBackendBackoffs, labels);
    bind(b.streams, MetricId::kBackendStreams, labels);
    bind(b.itl, MetricId::kBackendItl, labels);
    bind(b.itl_per_stream, MetricId::kBackendItlPerStream, labels);
    bind(b.itl_per_stream_error, MetricId::kBackendItlPerStreamError, labels);
    return b;
  }

  template <class Map>
  std::string label(const Map& known, std::string_view name) const {
    const std::lock_guard lock(mutex);
    return std::string(known.find(name) == known.end() ? kOther : name);
  }
};

Metrics::Metrics(std::string_view version) : impl_(std::make_unique<Impl>()) {
  Gauge build_info;
  impl_->bind(build_info, MetricId::kBuildInfo,
              {{"version", std::string(version)}, {"compiler", __VERSION__}});
  build_info.set(1);
  impl_->bind(ready, MetricId::kReady);
  impl_->bind(connections, MetricId::kConnections);
  impl_->bind(admin_connections, MetricId::kAdminConnections);
  impl_->bind(exchanges, MetricId::kExchanges);
  impl_->bind(predictions_pending, MetricId::kPredictionsPending);
  impl_->bind(calibrated, MetricId::kCalibrated);
  impl_->bind(predictions_dropped, MetricId::kPredictionsDropped);
  impl_->bind(request_bytes, MetricId::kRequestBytes);
  impl_->bind(response_bytes, MetricId::kResponseBytes);
  impl_->bind(usage_events_dropped, MetricId::kUsageEventsDropped);
  add_model(kOther);
  add_backend(kOther);
}

Metrics::~Metrics() = default;

void Metrics::add_model(std::string_view name) {
  const std::lock_guard lock(impl_->mutex);
  auto& known = impl_->models;
  if (known.size() > kLabelNamesMax || known.find(name) != known.end()) return;
  known.emplace(name, impl_->make_model(std::string(name)));
}

void Metrics::add_backend(std::string_view name) {
  const std::lock_guard lock(impl_->mutex);
  auto& known = impl_->backends;
  if (known.size() > kLabelNamesMax || known.find(name) != known.end()) return;
  known.emplace(name, impl_->make_backend(std::string(name)));
}

void Metrics::zero_gauges() {
  const std::lock_guard lock(impl_->mutex);
  for (auto& [name, model] : impl_->models) {
    for (Gauge* gauge : {&model.queue_jobs, &model.queue_bytes, &model.queue_output_tokens,
                         &model.running_jobs, &model.slots}) {
      gauge->set(0);
    }
  }
  for (auto& [name, backend] : impl_->backends) {
    for (Gauge* gauge : {&backend.running, &backend.slots, &backend.healthy, &backend.streams}) {
      gauge->set(0);
    }
  }
}

void Metrics::set_paces(
    const std::function<std::optional<TokenPace>(std::string_view backend)>& pace_of) {
  constexpr double kSecond = 1e-3;
  const std::lock_guard lock(impl_->mutex);
  for (auto& [name, backend] : impl_->backends) {
    if (name == kOther) continue;
    auto pace = pace_of(name);
    if (pace && !(pace->gap_ms > 0)) pace.reset();  // whoever says all at once has no pace
    const auto part = [&](double TokenPace::* ms) {
      return pace ? std::optional(kSecond * (*pace).*ms) : std::nullopt;
    };
    backend.itl.set(part(&TokenPace::gap_ms));
    backend.itl_per_stream.set(part(&TokenPace::per_stream_ms));
    backend.itl_per_stream_error.set(part(&TokenPace::error_ms));
  }
}

ModelMetrics& Metrics::model(std::string_view name) {
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->models.find(name);
  return found == impl_->models.end() ? impl_->models.find(kOther)->second : found->second;
}

BackendMetrics& Metrics::backend(std::string_view name) {
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->backends.find(name);
  return found == impl_->backends.end() ? impl_->backends.find(kOther)->second : found->second;
}

void Metrics::count_request(std::string_view model, RequestOutcome outcome, int status) {
  impl_->count(MetricId::kRequests, {{"model", impl_->label(impl_->models, model)},
                                     {"outcome", std::string(to_string(outcome))},
                                     {"status_class", status_class(status)}});
}

void Metrics::count_refusal(std::string_view model, dispatch::Refusal refusal) {
  impl_->count(MetricId::kRefusals, {{"model", impl_->label(impl_->models, model)},
                                     {"reason", std::string(to_string(refusal))}});
}

void Metrics::count_left(LeaveState state) {
  impl_->count(MetricId::kLeft, {{"state", std::string(to_string(state))}});
}

void Metrics::count_upstream_error(std::string_view backend, UpstreamError kind) {
  impl_->count(MetricId::kBackendErrors, {{"backend", impl_->label(impl_->backends, backend)},
                                          {"kind", std::string(to_string(kind))}});
}

void Metrics::count_prediction(PredictionResult result) {
  impl_->count(MetricId::kPredictions, {{"result", std::string(to_string(result))}});
}

std::string Metrics::exposition() const {
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

std::string_view to_string(RequestOutcome outcome) {
  switch (outcome) {
    case RequestOutcome::kCompleted:
      return "completed";
    case RequestOutcome::kFailed:
      return "failed";
    case RequestOutcome::kRefused:
      return "refused";
    case RequestOutcome::kInvalid:
      return "invalid";
    case RequestOutcome::kCancelled:
      return "cancelled";
    case RequestOutcome::kTimedOut:
      return "timed_out";
  }
  return "";
}

std::string_view to_string(LeaveState state) {
  switch (state) {
    case LeaveState::kReadingBody:
      return "reading_body";
    case LeaveState::kQueued:
      return "queued";
    case LeaveState::kConnecting:
      return "connecting";
    case LeaveState::kFirstByte:
      return "first_byte";
    case LeaveState::kStreaming:
      return "streaming";
    case LeaveState::kWholeAnswer:
      return "whole_answer";
  }
  return "";
}

std::string_view to_string(UpstreamError kind) {
  switch (kind) {
    case UpstreamError::kConnect:
      return "connect";
    case UpstreamError::kReset:
      return "reset";
    case UpstreamError::kFirstByteTimeout:
      return "first_byte_timeout";
    case UpstreamError::kIdleTimeout:
      return "idle_timeout";
    case UpstreamError::kBadFraming:
      return "bad_framing";
    case UpstreamError::kStatus:
      return "status";
  }
  return "";
}

std::string_view to_string(PredictionResult result) {
  switch (result) {
    case PredictionResult::kUsed:
      return "used";
    case PredictionResult::kLate:
      return "late";
    case PredictionResult::kUncalibrated:
      return "uncalibrated";
    case PredictionResult::kDropped:
      return "dropped";
    case PredictionResult::kGiven:
      return "given";
  }
  return "";
}

}  // namespace tailrace::gateway
