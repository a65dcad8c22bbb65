#include "gateway/metrics_catalogue.h"

#include <array>

#include "gateway/metrics.h"

namespace tailrace::gateway {
namespace {

constexpr std::array<core::MetricInfo, static_cast<std::size_t>(MetricId::kCount)> kCatalogue{{
    {"tailrace_build_info", "gauge", "version, compiler", "Always 1; the labels say what runs."},
    {"tailrace_ready", "gauge", "",
     "1 while new requests are welcome, 0 while draining or without engine."},
    {"tailrace_connections", "gauge", "", "Open client connections."},
    {"tailrace_admin_connections", "gauge", "", "Open connections to the admin listener."},
    {"tailrace_exchanges", "gauge", "", "Requests that are not completely answered."},
    {"tailrace_arrivals_total", "counter", "model",
     "Requests that came for the model: those that the queue took, and those that it refused for "
     "want of room, time or an engine."},
    {"tailrace_relayed_requests_total", "counter", "model",
     "Requests that name the model and generate nothing, such as embeddings: they are never "
     "queued, "
     "and are no arrivals. Those that no engine could take are counted too."},
    {"tailrace_requests_total", "counter", "model, outcome, status_class",
     "Finished requests. outcome: completed (the engine answered, with whatever status), failed "
     "(the engine), refused (the queue), invalid (the client), cancelled (the client left), "
     "timed_out."},
    {"tailrace_refusals_total", "counter", "model, reason",
     "Requests that the queue did not take: unknown_model, queue_full, bytes_full, deadline, "
     "draining, "
     "too_many_slots, invalid_job."},
    {"tailrace_clients_left_total", "counter", "state",
     "Clients that left before their answer was complete: reading_body, queued, connecting, "
     "first_byte, "
     "streaming, whole_answer."},
    {"tailrace_request_bytes_total", "counter", "", "Bytes of request bodies read from clients."},
    {"tailrace_response_bytes_total", "counter", "", "Bytes of answers relayed to clients."},
    {"tailrace_queue_entries_total", "counter", "model", "Requests that the queue took."},
    {"tailrace_queue_jobs", "gauge", "model", "Requests that wait."},
    {"tailrace_queue_output_tokens", "gauge", "model",
     "Tokens that waiting requests are predicted to generate: means of their laws up to their "
     "caps. One without a prediction counts as the mean of the others; 0 where none has one."},
    {"tailrace_queue_bytes", "gauge", "model", "Bytes that waiting requests hold."},
    {"tailrace_running_jobs", "gauge", "model", "Requests that engines hold."},
    {"tailrace_slots", "gauge", "model", "Slots of usable backends."},
    {"tailrace_overdue_dispatches_total", "counter", "model",
     "Requests that went because they had waited past the waiting bound."},
    {"tailrace_requeues_total", "counter", "model",
     "Requests that came back to their place: the engine refused them or died before its first "
     "byte."},
    {"tailrace_queue_wait_seconds", "histogram", "model", "From arrival to dispatch."},
    {"tailrace_time_to_first_token_seconds", "histogram", "model",
     "From arrival to the answer's first body byte."},
    {"tailrace_inter_token_latency_seconds", "histogram", "model",
     "Between two events of a stream that carry output."},
    {"tailrace_e2e_request_latency_seconds", "histogram", "model",
     "From arrival to the answer's last byte, outcome completed."},
    {"tailrace_prompt_tokens_total", "counter", "model",
     "Prompt tokens of the requests that the queue took, estimated from their text."},
    {"tailrace_prompt_tokens_squared_total", "counter", "model",
     "Sum of the squares of the same prompts' lengths: with tailrace_queue_entries_total their "
     "second moment."},
    {"tailrace_output_tokens_total", "counter", "model",
     "Output tokens of answers, whole or cut; as engines report them, else counted events."},
    {"tailrace_answer_tokens", "histogram", "model",
     "Length in tokens of single answers (n = 1), whole or cut."},
    {"tailrace_answer_tokens_squared_total", "counter", "model",
     "Sum of the squares of the same answers' lengths: with tailrace_answer_tokens_count their "
     "second moment."},
    {"tailrace_usage_events_dropped_total", "counter", "",
     "Usage events that only our asking caused and that no client saw."},
    {"tailrace_predictions_total", "counter", "result",
     "Predictions by fate: used, late (the request had left the queue), uncalibrated (or "
     "predict.mode is shadow), dropped, given (by the client)."},
    {"tailrace_predictions_pending", "gauge", "", "Requests that wait for a prediction."},
    {"tailrace_predictions_dropped_total", "counter", "",
     "Requests that went without a prediction because too many waited for one."},
    {"tailrace_prediction_calibrated", "gauge", "", "1 while predictions may order the queue."},
    {"tailrace_prediction_log_error", "histogram", "model",
     "Absolute value of ln(realised length / predicted median), whole answers."},
    {"tailrace_predictions_scored_total", "counter", "model",
     "Predictions compared with a whole answer's length, as its engine reported it."},
    {"tailrace_predictions_covered_total", "counter", "model, quantile",
     "Scored predictions whose realised length lay below the predicted quantile: 0.5 and 0.9 of "
     "the "
     "scored ones, if calibrated. A length that the quantile falls into counts by its part below."},
    {"tailrace_lengths_learned_total", "counter", "model, source",
     "Lengths handed to the predictor: usage (the engine's count) or estimate (counted events)."},
    {"tailrace_backend_running_slots", "gauge", "backend", "Slots in use."},
    {"tailrace_backend_slots", "gauge", "backend", "Slots that the backend has."},
    {"tailrace_backend_healthy", "gauge", "backend", "1 while its health checks pass."},
    {"tailrace_backend_requests_total", "counter", "backend", "Requests sent to it."},
    {"tailrace_backend_errors_total", "counter", "backend, kind",
     "What went wrong with it: connect, reset, first_byte_timeout, idle_timeout, bad_framing, "
     "status "
     "(5xx)."},
    {"tailrace_backend_backoffs_total", "counter", "backend",
     "Times that it answered 429 or 503 and was left alone for a while."},
    {"tailrace_backend_streams", "gauge", "backend",
     "Streaming answers with n = 1 that have had their first token and not their last."},
    {"tailrace_backend_itl_seconds", "gauge", "backend",
     "Between two events that carry output, in the streams of tailrace_backend_streams: mean over "
     "two minutes, each iteration of the engine counted once. Absent while unknown, as are the "
     "next two."},
    {"tailrace_backend_itl_per_stream_seconds", "gauge", "backend",
     "By which that grows with one more stream, at the same number of new prompts."},
    {"tailrace_backend_itl_per_stream_error_seconds", "gauge", "backend",
     "Standard error of tailrace_backend_itl_per_stream_seconds."},
}};

}  // namespace

std::span<const core::MetricInfo> metric_catalogue() {
  return kCatalogue;
}

std::string metrics_reference() {
  const std::string text = R"(# Metrics

The admin listener serves these at `/metrics` in Prometheus' text format. This page is generated from the catalogue
(`tailrace check --metrics-reference`); do not edit it.

Units are seconds, bytes and tokens. Labels are bounded: `model` and `backend` carry names from the configuration or the
admin API; any other name counts as `other`.

)";
  return text + core::metric_table(kCatalogue);
}

}  // namespace tailrace::gateway
