// A request's way into the queue, and its end.
#include "gateway/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "gateway/forward_headers.h"
#include "tailrace/core/log.h"
#include "tailrace/core/text.h"

namespace tailrace::gateway {
namespace {

constexpr Duration kRetryAfterDefault = std::chrono::seconds(1);
constexpr std::size_t kNameBytesMax = 128;
constexpr std::size_t kErrorBytesMax = 256;
constexpr Tokens kLongestAnswer{1 << 20};  // that anybody's engine writes
constexpr Tokens kFirstReport{512};        // shorter answers end before it would matter

std::string retry_after_value(std::optional<Duration> wait) {
  const double seconds = std::ceil(to_seconds(wait.value_or(kRetryAfterDefault)));
  return std::to_string(static_cast<std::int64_t>(std::clamp(seconds, 1.0, 3600.0)));
}

/// More replicas could have taken it.
bool is_demand(dispatch::Refusal refusal) {
  switch (refusal) {
    case dispatch::Refusal::kUnknownModel:  // of models that were announced only: the others count
                                            // as "other"
    case dispatch::Refusal::kQueueFull:
    case dispatch::Refusal::kBytesFull:
    case dispatch::Refusal::kDeadline:
      return true;
    case dispatch::Refusal::kDraining:
    case dispatch::Refusal::kTooManySlots:
    case dispatch::Refusal::kInvalidJob:
      return false;
  }
  return false;
}

std::string_view state_name(int state) {
  constexpr std::string_view kNames[] = {"reading",    "parsing",   "waiting", "connecting",
                                         "first byte", "streaming", "ended"};
  return kNames[state];
}

/// How much of a whole length lies below the law's quantile: a length of k tokens stands for all
/// between k − 1 and k, so that a law with an atom there is not found wrong.
double covered_share(const length::LengthLaw& law, double length, double p) {
  const double from = length <= 1 ? 0 : law.cdf(length - 1);
  const double to = law.cdf(length);
  if (!(to > from)) return to <= p ? 1 : 0;
  return std::clamp((p - from) / (to - from), 0.0, 1.0);
}

}  // namespace

GenerationRequest::GenerationRequest(Context& context, JobId id, Route route,
                                     std::string request_id,
                                     std::shared_ptr<net::Exchange> exchange)
    : context_(context),
      id_(id),
      route_(route),
      exchange_(std::move(exchange)),
      record_(std::make_shared<RequestRecord>()),
      arrival_(context.loop.now()) {
  metrics_ = &context_.metrics.model({});
  record_->request_id = std::move(request_id);
  record_->job = id;
  record_->route = to_string(route);
  record_->client_address = exchange_->peer();
  record_->arrival = arrival_;
  context_.history.add(record_);
}

void GenerationRequest::enter(State state) {
  state_ = state;
  record_->state = state_name(static_cast<int>(state));
}

void GenerationRequest::start() {
  const auto self = shared_from_this();
  const std::weak_ptr<GenerationRequest> weak = self;
  exchange_->on_client_gone([weak] {
    if (const auto request = weak.lock()) request->client_gone();
  });
  if (context_.draining) {
    refuse(dispatch::Refusal::kDraining, "the gateway is shutting down; ask another replica",
           std::nullopt);
    return;
  }
  exchange_->read_body(context_.config.body_bytes_max, [weak](Result<std::string> body) {
    if (const auto request = weak.lock()) request->body_arrived(std::move(body));
  });
}

void GenerationRequest::body_arrived(Result<std::string> body) {
  if (state_ != State::kReading) return;
  if (!body) {
    const Error& error = body.error();
    switch (error.code) {
      case ErrorCode::kCancelled:
        client_gone();
        return;
      case ErrorCode::kResourceExhausted:
        answer_error(error_answer(413, error.message, "body_too_large"), RequestOutcome::kInvalid);
        return;
      case ErrorCode::kDeadlineExceeded:
        answer_error(error_answer(408, error.message, "body_timeout"), RequestOutcome::kTimedOut);
        return;
      case ErrorCode::kUnavailable:
        answer_error(error_answer(503, error.message, "receiving_too_much"),
                     RequestOutcome::kRefused);
        return;
      default:
        answer_error(error_answer(error), RequestOutcome::kInvalid);
        return;
    }
  }
  context_.metrics.request_bytes.add(static_cast<double>(body->size()));
  enter(State::kParsing);
  auto bytes = std::make_shared<const std::string>(std::move(*body));
  if (bytes->size() <= context_.config.inline_body_bytes_max) {
    parsed(read_whole_body(route_, std::move(bytes)));
    return;
  }
  context_.big_bodies.read(route_, std::move(bytes),
                           [weak = weak_from_this()](Result<ReadBody> read) {
                             if (const auto request = weak.lock()) request->parsed(std::move(read));
                           });
}

void GenerationRequest::parsed(Result<ReadBody> read) {
  if (state_ != State::kParsing) return;
  if (!read) {
    const bool ours = read.error().code == ErrorCode::kResourceExhausted;
    answer_error(error_answer(read.error()),
                 ours ? RequestOutcome::kRefused : RequestOutcome::kInvalid);
    return;
  }
  parsed_ = std::move(read->request);
  body_ = std::move(read->body);
  body_with_usage_ = std::move(read->with_usage);
  auto hints = read_hints(exchange_->head().headers, context_.config.predict.accept_given_laws);
  if (!hints) {
    answer_error(error_answer(hints.error()), RequestOutcome::kInvalid);
    return;
  }
  if (parsed_.model.empty()) {
    // One served model needs no name, as with the engines themselves.
    const auto pools = context_.dispatcher.pools(context_.loop.now());
    if (pools.size() != 1) {
      answer_error(error_answer(400,
                                fmt::format("model: the request names none and the gateway serves "
                                            "{} models; add \"model\": one of GET /v1/models",
                                            pools.size()),
                                "model_missing", "model"),
                   RequestOutcome::kInvalid);
      return;
    }
    parsed_.model = pools.front().model;
    parsed_.features.model = parsed_.model;
  }
  submit(*hints);
}

void GenerationRequest::submit(const RequestHints& hints) {
  const MonoTime now = context_.loop.now();
  settle_cap(parsed_, context_.config.model(parsed_.model), context_.config.predict.default_cap);
  parsed_.features.tenant = hints.tenant;

  schedule::Job job;
  job.id = id_;
  job.arrival = arrival_ = now;
  job.model = parsed_.model;
  job.tenant = hints.tenant;
  job.prompt_tokens = parsed_.prompt_tokens;
  job.cap = parsed_.cap;
  job.law = hints.law;
  job.priority = hints.priority;
  job.slots = parsed_.slots;
  job.prefix = parsed_.prefix;
  if (hints.deadline) job.deadline = deadline_ = now + *hints.deadline;

  record_->arrival = now;
  record_->model = core::utf8_prefix(job.model, kNameBytesMax);  // a client may name anything
  record_->tenant = job.tenant;
  record_->stream = parsed_.stream;
  record_->slots = job.slots;
  record_->priority = job.priority;
  record_->prompt_tokens = job.prompt_tokens;
  record_->cap = job.cap;
  if (hints.law) {
    record_->law = hints.law;
    record_->law_source = "given";
    use_law(*hints.law);
    context_.metrics.count_prediction(PredictionResult::kGiven);
  }

  const std::size_t bytes = body_->size() + (body_with_usage_ ? body_with_usage_->size() : 0);
  const auto submission = context_.dispatcher.submit(std::move(job), bytes, now);
  ModelMetrics& metrics = context_.metrics.model(parsed_.model);
  if (!submission.refusal || is_demand(*submission.refusal)) metrics.arrivals.add();
  if (submission.refusal) {
    refuse(*submission.refusal, submission.reason, submission.retry_after);
    return;
  }
  metrics_ = &metrics;
  const auto prompt_tokens = static_cast<double>(parsed_.prompt_tokens.count());
  metrics.queue_entries.add();
  metrics.prompt_tokens.add(prompt_tokens);
  metrics.prompt_tokens_squared.add(prompt_tokens * prompt_tokens);
  wait_in_queue();
  if (!hints.law) ask_for_law();
  context_.pump();
}

/// The queue goes by it.
void GenerationRequest::use_law(const length::LengthLaw& law) {
  record_->law_orders = true;
  const double cap = static_cast<double>(parsed_.cap.count());
  predicted_tokens_ = law.capped_moments_fast(cap).mean * parsed_.slots;
}

void GenerationRequest::ask_for_law() {
  if (!context_.prediction) return;
  asked_for_law_ = context_.prediction->predict(id_, parsed_.features);
  if (!asked_for_law_) context_.metrics.count_prediction(PredictionResult::kDropped);
}

void GenerationRequest::predicted(const predict::Prediction& prediction) {
  if (state_ == State::kEnded || record_->law) return;
  record_->law = prediction.law;
  record_->law_source = "predicted";
  record_->calibrated = prediction.calibrated;
  context_.saw_prediction(prediction.calibrated);
  if (!prediction.calibrated || context_.config.predict.mode != PredictMode::kOn) {
    context_.metrics.count_prediction(PredictionResult::kUncalibrated);
    return;
  }
  if (state_ != State::kQueued) {
    context_.metrics.count_prediction(PredictionResult::kLate);
    return;
  }
  use_law(prediction.law);
  context_.dispatcher.set_law(id_, prediction.law, context_.loop.now());
  context_.metrics.count_prediction(PredictionResult::kUsed);
}

void GenerationRequest::wait_in_queue() {
  enter(State::kQueued);
  std::optional<MonoTime> until = deadline_;
  if (const Duration limit = context_.config.timeouts.queue; limit > Duration::zero()) {
    until = std::min(until.value_or(MonoTime::max()), arrival_ + limit);
  }
  if (!until) return;
  queue_timer_ = context_.loop.at(*until, [this] { waited_too_long(); });
}

void GenerationRequest::waited_too_long() {
  const auto self = shared_from_this();
  const MonoTime now = context_.loop.now();
  if (refusal_) {
    relay_refusal();
  } else if (deadline_ && now >= *deadline_) {
    refuse(dispatch::Refusal::kDeadline, "the request's deadline passed while it waited",
           context_.dispatcher.expected_wait(parsed_.model, now));
  } else {
    answer_error(error_answer(503,
                              "the request waited as long as timeouts.queue allows and no engine "
                              "became free",
                              "queue_timeout"),
                 RequestOutcome::kTimedOut, context_.dispatcher.expected_wait(parsed_.model, now));
  }
}

void GenerationRequest::backends_changed() {
  if (state_ != State::kQueued) return;
  const int largest = context_.dispatcher.largest_backend(parsed_.model);
  if (parsed_.slots <= largest) return;
  const auto self = shared_from_this();
  if (largest == 0) {
    if (context_.dispatcher.awaits(parsed_.model)) return;
    answer_error(
        error_answer(503, "the last backend that served the model was removed", "no_backend"),
        RequestOutcome::kFailed);
    return;
  }
  refuse(dispatch::Refusal::kTooManySlots,
         fmt::format("the request needs {} slots on one backend; the largest now has {}",
                     parsed_.slots, largest),
         std::nullopt);
}

void GenerationRequest::client_gone() {
  if (state_ == State::kEnded) return;
  const auto self = shared_from_this();
  context_.metrics.count_left(leave_state());
  if (state_ == State::kStreaming) learn(/*complete=*/false);
  end(RequestOutcome::kCancelled, 499);
}

LeaveState GenerationRequest::leave_state() const {
  switch (state_) {
    case State::kReading:
    case State::kParsing:
      return LeaveState::kReadingBody;
    case State::kQueued:
      return LeaveState::kQueued;
    case State::kConnecting:
      return LeaveState::kConnecting;
    case State::kFirstByte:
      return parsed_.stream ? LeaveState::kFirstByte : LeaveState::kWholeAnswer;
    default:
      return parsed_.stream ? LeaveState::kStreaming : LeaveState::kWholeAnswer;
  }
}

void GenerationRequest::refuse(dispatch::Refusal refusal, std::string_view reason,
                               std::optional<Duration> retry_after) {
  context_.metrics.count_refusal(parsed_.model, refusal);
  const bool client_fault =
      refusal == dispatch::Refusal::kUnknownModel || refusal == dispatch::Refusal::kTooManySlots;
  const bool later = refusal == dispatch::Refusal::kQueueFull ||
                     refusal == dispatch::Refusal::kDeadline ||
                     refusal == dispatch::Refusal::kDraining;
  if (later && !retry_after) retry_after = kRetryAfterDefault;
  answer_error(error_answer(refusal, reason),
               client_fault ? RequestOutcome::kInvalid : RequestOutcome::kRefused, retry_after);
}

void GenerationRequest::answer_error(const ErrorAnswer& answer, RequestOutcome outcome,
                                     std::optional<Duration> retry_after) {
  net::ResponseHead head;
  head.status = answer.status;
  head.headers = added_headers();
  head.headers.add("content-type", "application/json");
  if (retry_after || answer.status == 429 || answer.status == 503) {
    head.headers.add("retry-after", retry_after_value(retry_after));
  }
  exchange_->respond(std::move(head), answer.body);
  if (record_->error.empty()) record_->error = core::utf8_prefix(answer.message, kErrorBytesMax);
  end(outcome, answer.status);
}

void GenerationRequest::shut_down() {
  if (state_ == State::kEnded) return;
  const auto self = shared_from_this();
  if (relay_ && relay_->begun()) {
    learn(/*complete=*/false);
    record_->error = "cut: the gateway is shutting down";
    relay_->cut("the gateway is shutting down", "shutting_down");
    end(RequestOutcome::kFailed, relay_->status());
    return;
  }
  refuse(dispatch::Refusal::kDraining, "the gateway is shutting down; ask another replica",
         std::nullopt);
}

void GenerationRequest::learn(bool complete) {
  if (!relay_) return;
  const AnswerFacts& facts = relay_->facts();
  record_->output_tokens = facts.usage ? facts.usage->completion : Tokens(facts.counted_events);
  record_->output_estimated = !facts.usage && facts.counted_events > 0;
  ModelMetrics& metrics = *metrics_;
  metrics.output_tokens.add(static_cast<double>(record_->output_tokens.count()));
  const auto sample = learnable_length(facts, parsed_.slots, complete);
  if (!sample) return;
  const auto answer_tokens = static_cast<double>(sample->length.count());
  metrics.answer_tokens.observe(answer_tokens);
  metrics.answer_tokens_squared.add(answer_tokens * answer_tokens);
  if (record_->law && !sample->censored && !sample->estimated) {
    const double length = std::max<double>(1, static_cast<double>(sample->length.count()));
    metrics.scored.add();
    metrics.log_error.observe(std::abs(std::log(length / record_->law->median())));
    metrics.below_p50.add(covered_share(*record_->law, length, 0.5));
    metrics.below_p90.add(covered_share(*record_->law, length, 0.9));
  }
  if (!context_.prediction) return;
  // Counted events are a sound lower bound, which is all that a cut answer tells anyway.
  if (sample->estimated && !sample->censored && !context_.config.predict.learn_from_estimates) {
    return;
  }
  (sample->estimated ? metrics.learned_estimate : metrics.learned_usage).add();
  // An engine that claims more than the request allows has miscounted.
  const Tokens length = std::min(sample->length, parsed_.limit.value_or(kLongestAnswer));
  predict::Observation observation{length, sample->censored};
  observation.reported = reported_;
  context_.prediction->observe(parsed_.features, observation);
}

void GenerationRequest::report_running() {
  if (!context_.prediction || parsed_.slots != 1) return;
  const AnswerFacts& facts = relay_->facts();
  const Tokens so_far{facts.counted_events};
  if (so_far < kFirstReport || so_far.count() < 2 * reported_.count()) return;
  if (facts.failed || facts.choices > 1 || facts.finished_choices > 0) return;
  predict::Observation observation{so_far, /*censored=*/true};
  observation.running = true;
  observation.reported = reported_;
  if (context_.prediction->observe(parsed_.features, observation)) reported_ = so_far;
}

void GenerationRequest::end(RequestOutcome outcome, int status) {
  const MonoTime now = context_.loop.now();
  const bool known_to_dispatcher = state_ != State::kReading && state_ != State::kParsing;
  enter(State::kEnded);
  queue_timer_.reset();
  first_byte_timer_.reset();
  call_.reset();  // the engine learns at once that nobody waits
  pace_.reset();
  // A no-op where the job was completed already; the slot or the place is free after it in every
  // case.
  if (known_to_dispatcher) context_.dispatcher.cancel(id_, now);
  if (awaits_law()) context_.prediction->forget(id_);
  record_->status = status;
  record_->outcome = to_string(outcome);
  record_->total = now - record_->arrival;
  context_.metrics.count_request(parsed_.model, outcome, status);
  if (relay_) {
    context_.metrics.response_bytes.add(static_cast<double>(relay_->bytes()));
    context_.metrics.usage_events_dropped.add(static_cast<double>(relay_->dropped_events()));
  }
  if (context_.config.logging.requests && log::enabled(log::Level::kInfo)) log_end(outcome);
  context_.history.ended(record_);
  body_.reset();
  body_with_usage_.reset();
  context_.forget(id_);
  context_.pump();
}

void GenerationRequest::log_end(RequestOutcome outcome) {
  const auto ms = [](std::optional<Duration> d) { return d ? to_millis(*d) : -1.0; };
  log::info("request", {{"id", record_->request_id},
                        {"model", record_->model},
                        {"route", record_->route},
                        {"outcome", to_string(outcome)},
                        {"status", record_->status},
                        {"backend", record_->backend},
                        {"attempts", record_->attempts},
                        {"prompt_tokens", record_->prompt_tokens.count()},
                        {"output_tokens", record_->output_tokens.count()},
                        {"estimated", record_->output_estimated},
                        {"queue_ms", ms(record_->queued)},
                        {"ttft_ms", ms(record_->first_byte)},
                        {"total_ms", ms(record_->total)},
                        {"error", record_->error}});
}

}  // namespace tailrace::gateway
