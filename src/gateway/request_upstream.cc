// One attempt of a request at an engine: send, wait, relay, and what to do when it goes wrong.
#include <algorithm>
#include <cmath>
#include <utility>

#include "gateway/forward_headers.h"
#include "gateway/request.h"
#include "tailrace/core/log.h"

namespace tailrace::gateway {
namespace {

constexpr int kAttemptsMax = 4;  // of one request at engines that die before their first byte
constexpr std::size_t kRefusalBytesMax = 64 * 1024;
constexpr Duration kRefusalReadMax = std::chrono::seconds(2);
constexpr Duration kBackoffDefault = std::chrono::milliseconds(500);
constexpr Duration kBackoffMin = std::chrono::milliseconds(50);
constexpr Duration kBackoffMax = std::chrono::seconds(30);
/// How long an engine's "busy" is waited out where timeouts.queue sets no limit.
constexpr Duration kRefusalPatience = std::chrono::seconds(60);

bool is_busy(int status) {
  return status == 429 || status == 503;
}

std::string whole_tokens(double tokens) {
  return std::to_string(static_cast<std::int64_t>(std::llround(std::max(1.0, tokens))));
}

}  // namespace

net::Headers GenerationRequest::added_headers() const {
  net::Headers headers;
  headers.add("x-tailrace-request-id", record_->request_id);
  if (record_->law) {
    const auto cap = static_cast<double>(record_->cap.count());
    headers.add("x-tailrace-predicted-p50",
                whole_tokens(std::min(cap, record_->law->quantile(0.5))));
    headers.add("x-tailrace-predicted-p90",
                whole_tokens(std::min(cap, record_->law->quantile(0.9))));
  }
  if (record_->queued) {
    headers.add(
        "x-tailrace-queue-ms",
        std::to_string(static_cast<std::int64_t>(std::llround(to_millis(*record_->queued)))));
  }
  if (!record_->backend.empty()) headers.add("x-tailrace-backend", record_->backend);
  return headers;
}

void GenerationRequest::run(const dispatch::Assignment& assignment) {
  const auto self = shared_from_this();
  queue_timer_.reset();
  if (record_->attempts == 0) metrics_->wait_seconds.observe(assignment.waited);
  if (assignment.overdue) metrics_->overdue.add();
  record_->queued = assignment.waited;
  record_->backend = assignment.backend;
  ++record_->attempts;
  refusing_ = false;
  backend_ = context_.backends.find(assignment.backend);
  if (!backend_) {
    // It was removed between two handlers; whoever is left may take the job.
    enter(State::kConnecting);
    failed_before_first_byte(
        {net::CallPhase::kConnect, {ErrorCode::kUnavailable, "the backend has just been removed"}});
    return;
  }
  enter(State::kConnecting);
  const bool ask_usage = body_with_usage_ && backend_->ask_usage;
  relay_.emplace(exchange_, route_, ask_usage);
  context_.metrics.backend(backend_->name).requests.add();
  call_ = context_.client.start(
      backend_->url.endpoint,
      upstream_head(exchange_->head(), backend_->url.prefix, backend_->api_key.reveal(),
                    record_->request_id),
      ask_usage ? body_with_usage_ : body_,
      {.connect = context_.config.timeouts.connect, .idle = context_.config.timeouts.idle},
      handlers());
}

net::CallHandlers GenerationRequest::handlers() {
  // The call is this request's own, so its handlers cannot outlive it; each keeps it alive while it
  // runs.
  net::CallHandlers handlers;
  handlers.on_connected = [this] {
    const auto self = shared_from_this();
    connected();
  };
  handlers.on_head = [this](net::ResponseHead head) {
    const auto self = shared_from_this();
    got_head(std::move(head));
  };
  handlers.on_body = [this](std::string_view bytes) {
    const auto self = shared_from_this();
    got_body(bytes);
  };
  handlers.on_end = [this] {
    const auto self = shared_from_this();
    got_end();
  };
  handlers.on_error = [this](const net::CallError& error) {
    const auto self = shared_from_this();
    got_error(error);
  };
  return handlers;
}

void GenerationRequest::connected() {
  enter(State::kFirstByte);
  if (const Duration limit = context_.config.timeouts.first_byte; limit > Duration::zero()) {
    first_byte_timer_ = context_.loop.after(limit, [this] { first_byte_timed_out(); });
  }
}

void GenerationRequest::got_head(net::ResponseHead head) {
  if (is_busy(head.status)) {
    refusing_ = true;
    refusal_ = EngineRefusal{std::move(head), {}};
    // Its body is wanted only for the case that it has to be relayed.
    first_byte_timer_ = context_.loop.after(kRefusalReadMax, [this] {
      const auto self = shared_from_this();
      engine_refused();
    });
    return;
  }
  relay_->head(std::move(head), added_headers());
}

void GenerationRequest::got_body(std::string_view bytes) {
  if (refusing_) {
    const std::size_t room = kRefusalBytesMax - refusal_->body.size();
    refusal_->body.append(bytes.substr(0, room));
    return;
  }
  const MonoTime now = context_.loop.now();
  if (state_ != State::kStreaming) first_byte_came(now);
  const std::int64_t events_before = relay_->facts().counted_events;
  relay_->body(bytes, call_);
  count_tokens(now, events_before);
  const AnswerFacts& facts = relay_->facts();
  // The engine goes on without it, though its connection may take a while to end.
  if (facts.finished_choices > 0 || facts.done || facts.failed) pace_.reset();
}

void GenerationRequest::first_byte_came(MonoTime now) {
  enter(State::kStreaming);
  first_byte_timer_.reset();
  record_->first_byte = now - arrival_;
  metrics_->ttft_seconds.observe(now - arrival_);
  context_.health.passive_success(backend_->name);
  last_event_ = now;
  // Of several answers at once nobody could say whose token came after whose.
  if (parsed_.slots == 1) pace_.emplace(backend_->pace);
  // From here on nothing is sent again, and answers are long: the request's bytes can go.
  body_.reset();
  body_with_usage_.reset();
}

void GenerationRequest::count_tokens(MonoTime now, std::int64_t events_before) {
  const AnswerFacts& facts = relay_->facts();
  const std::int64_t events = facts.counted_events;
  if (events == events_before) return;
  if (facts.choices > 1) pace_.reset();
  if (events_before > 0) {
    // Several events in one read came at one time as far as anyone can tell: their gap is shared.
    const Duration gap = (now - last_event_) / (events - events_before);
    metrics_->itl_seconds.observe(gap);
    if (pace_) pace_->gap(now, gap);
  } else if (pace_) {
    pace_->first_token(now);
  }
  last_event_ = now;
  report_running();
}

void GenerationRequest::got_end() {
  if (refusing_) {
    engine_refused();
    return;
  }
  const MonoTime now = context_.loop.now();
  relay_->end();
  const AnswerFacts& facts = relay_->facts();
  const bool failed = facts.failed || relay_->status() >= 400;
  if (facts.failed) record_->error = facts.error;
  // An event stream that ends without saying so may have been cut by the engine's end.
  learn(/*complete=*/!relay_->streams_events() || facts.done);
  const auto completed = context_.dispatcher.complete(
      id_, failed ? dispatch::Outcome::kFailed : dispatch::Outcome::kCompleted, now);
  if (!completed) log::warn("slot_unknown", {{"id", record_->request_id}});
  metrics_->e2e_seconds.observe(now - arrival_);
  const bool broken = facts.failed && relay_->status() < 400;
  end(broken ? RequestOutcome::kFailed : RequestOutcome::kCompleted, relay_->status());
}

void GenerationRequest::got_error(const net::CallError& error) {
  if (refusing_) {
    engine_refused();
  } else if (relay_->begun()) {
    failed_mid_answer(error);
  } else {
    failed_before_first_byte(error);
  }
}

void GenerationRequest::first_byte_timed_out() {
  const auto self = shared_from_this();
  call_.reset();
  failed_before_first_byte(
      {net::CallPhase::kFirstByte,
       {ErrorCode::kDeadlineExceeded, "no answer within timeouts.first_byte"}});
}

void GenerationRequest::engine_refused() {
  const MonoTime now = context_.loop.now();
  first_byte_timer_.reset();
  call_.reset();
  const Duration backoff = std::clamp(retry_after(refusal_->head.headers).value_or(kBackoffDefault),
                                      kBackoffMin, kBackoffMax);
  if (context_.dispatcher.set_backoff(backend_->name, now + backoff)) {
    context_.metrics.backend(backend_->name).backoffs.add();
  }
  context_.metrics.count_upstream_error(backend_->name, UpstreamError::kStatus);
  if (!first_refusal_) first_refusal_ = now;
  const Duration limit = context_.config.timeouts.queue;
  const bool patience_over = limit > Duration::zero() ? now - arrival_ >= limit
                                                      : now - *first_refusal_ >= kRefusalPatience;
  if (patience_over) {
    relay_refusal();
    return;
  }
  back_to_queue(backend_->name);
}

void GenerationRequest::relay_refusal() {
  net::ResponseHead head = downstream_head(std::move(refusal_->head));
  for (const auto& header : added_headers()) head.headers.set(header.name, header.value);
  if (!head.headers.find("retry-after")) head.headers.add("retry-after", "1");
  const int status = head.status;
  record_->error = "the engine was busy until the waiting limit";
  exchange_->respond(std::move(head), std::move(refusal_->body));
  end(RequestOutcome::kRefused, status);
}

void GenerationRequest::back_to_queue(std::string_view avoid) {
  relay_.reset();
  const auto requeued = context_.dispatcher.requeue(id_, avoid, context_.loop.now());
  if (!requeued) {
    answer_error(error_answer(500, "the request lost its place in the queue", "internal"),
                 RequestOutcome::kFailed);
    return;
  }
  metrics_->requeued.add();
  wait_in_queue();
  backends_changed();  // it may have left the last one that served its model
  context_.pump();
}

bool GenerationRequest::another_backend_could() const {
  const auto views = context_.dispatcher.backends();
  return std::any_of(views.begin(), views.end(), [this](const dispatch::BackendView& view) {
    return view.healthy && !view.draining && view.slots >= parsed_.slots &&
           !failed_backends_.contains(view.name) &&
           std::find(view.models.begin(), view.models.end(), parsed_.model) != view.models.end();
  });
}

void GenerationRequest::count_failure(const net::CallError& error) {
  const bool late = error.error.code == ErrorCode::kDeadlineExceeded;
  UpstreamError kind = UpstreamError::kReset;
  if (error.error.code == ErrorCode::kDataLoss) {
    kind = UpstreamError::kBadFraming;
  } else if (error.phase == net::CallPhase::kConnect) {
    kind = UpstreamError::kConnect;
  } else if (late) {
    kind = error.phase == net::CallPhase::kBody ? UpstreamError::kIdleTimeout
                                                : UpstreamError::kFirstByteTimeout;
  }
  context_.metrics.count_upstream_error(record_->backend, kind);
  context_.health.passive_failure(record_->backend, error.error.message);
  record_->error = error.error.message;
}

void GenerationRequest::failed_before_first_byte(const net::CallError& error) {
  first_byte_timer_.reset();
  call_.reset();
  count_failure(error);
  if (error.phase == net::CallPhase::kConnect && context_.dispatcher.awaits(parsed_.model)) {
    // Nothing was sent, and another engine may come; this one is left alone for a moment, so that
    // a dead one is not asked again and again until its health check has found out.
    (void)context_.dispatcher.set_backoff(record_->backend, context_.loop.now() + kBackoffDefault);
    back_to_queue(record_->backend);
    return;
  }
  failed_backends_.insert(record_->backend);
  if (record_->attempts < kAttemptsMax && another_backend_could()) {
    back_to_queue(record_->backend);
    return;
  }
  const bool late = error.error.code == ErrorCode::kDeadlineExceeded;
  (void)context_.dispatcher.complete(id_, dispatch::Outcome::kFailed, context_.loop.now());
  answer_error(error_answer(late ? 504 : 502,
                            late ? "the engine did not answer in time"
                                 : "the engine failed before it answered",
                            late ? "upstream_timeout" : "upstream_failed"),
               late ? RequestOutcome::kTimedOut : RequestOutcome::kFailed);
}

void GenerationRequest::failed_mid_answer(const net::CallError& error) {
  count_failure(error);
  learn(/*complete=*/false);
  const bool late = error.error.code == ErrorCode::kDeadlineExceeded;
  relay_->cut(late ? "the engine stopped sending" : "the engine failed while it answered",
              late ? "upstream_timeout" : "upstream_failed");
  (void)context_.dispatcher.complete(id_, dispatch::Outcome::kFailed, context_.loop.now());
  end(late ? RequestOutcome::kTimedOut : RequestOutcome::kFailed, relay_->status());
}

}  // namespace tailrace::gateway
