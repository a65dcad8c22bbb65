#include "gateway/passthrough.h"

#include <algorithm>
#include <utility>

#include "gateway/forward_headers.h"
#include "tailrace/core/log.h"
#include "tailrace/core/text.h"

namespace tailrace::gateway {

Passthrough::Passthrough(Context& context, JobId id, std::string request_id,
                         std::shared_ptr<net::Exchange> exchange)
    : context_(context),
      id_(id),
      request_id_(std::move(request_id)),
      exchange_(std::move(exchange)),
      arrival_(context.loop.now()) {}

void Passthrough::start() {
  const auto self = shared_from_this();
  const std::weak_ptr<Passthrough> weak = self;
  exchange_->on_client_gone([weak] {
    if (const auto request = weak.lock(); request && !request->ended_) {
      request->end(RequestOutcome::kCancelled, 499);
    }
  });
  if (context_.draining) {
    refuse(503, "the gateway is shutting down; ask another replica", "draining",
           RequestOutcome::kRefused);
    return;
  }
  exchange_->read_body(context_.config.body_bytes_max, [weak](Result<std::string> body) {
    if (const auto request = weak.lock()) request->body_arrived(std::move(body));
  });
}

void Passthrough::body_arrived(Result<std::string> body) {
  if (ended_) return;
  if (!body) {
    const Error& error = body.error();
    if (error.code == ErrorCode::kCancelled) {
      end(RequestOutcome::kCancelled, 499);
    } else {
      if (error.code == ErrorCode::kUnavailable) {
        refuse(503, error.message, "receiving_too_much", RequestOutcome::kRefused);
        return;
      }
      const int status = error.code == ErrorCode::kResourceExhausted  ? 413
                         : error.code == ErrorCode::kDeadlineExceeded ? 408
                                                                      : 400;
      refuse(status, error.message, {}, RequestOutcome::kInvalid);
    }
    return;
  }
  context_.metrics.request_bytes.add(static_cast<double>(body->size()));
  if (body->size() > context_.config.dispatch.queued_bytes_max - context_.relayed_bytes) {
    refuse(503, "too many request bytes are being relayed at once", "relaying_too_much",
           RequestOutcome::kRefused);
    return;
  }
  held_bytes_ = body->size();
  context_.relayed_bytes += held_bytes_;
  if (!body->empty()) body_ = std::make_shared<const std::string>(std::move(*body));
  if (!body_ || !is_json(exchange_->head().headers)) {
    choose_and_send();
    return;
  }
  const auto named = [weak = weak_from_this()](Result<ReadBody> read) {
    const auto request = weak.lock();
    if (!request || request->ended_) return;
    if (!read) {
      request->refuse(503, read.error().message, "too_busy", RequestOutcome::kRefused);
      return;
    }
    request->model_ = std::move(read->request.model);
    request->choose_and_send();
  };
  if (body_->size() <= context_.config.inline_body_bytes_max) {
    named(read_whole_body(std::nullopt, body_));
  } else {
    context_.big_bodies.read(std::nullopt, body_, named);
  }
}

std::shared_ptr<Backend> Passthrough::choose() const {
  std::shared_ptr<Backend> best;
  double best_load = 0;
  for (const auto& view : context_.dispatcher.backends()) {
    if (!view.healthy || view.draining || failed_backends_.contains(view.name)) continue;
    const auto& served = view.models;
    if (!model_.empty() && std::find(served.begin(), served.end(), model_) == served.end())
      continue;
    const double load = static_cast<double>(view.running) / std::max(1, view.slots);
    if (best && load >= best_load) continue;
    if (auto backend = context_.backends.find(view.name)) {
      best = std::move(backend);
      best_load = load;
    }
  }
  return best;
}

void Passthrough::choose_and_send() {
  const auto& dispatcher = context_.dispatcher;
  if (!model_.empty() && !dispatcher.serves(model_) && !dispatcher.awaits(model_)) {
    refuse(404, "model " + core::quoted(model_) + " is not served here; see GET /v1/models",
           "model_not_found", RequestOutcome::kInvalid);
    return;
  }
  // Whoever scales must know: it is a reason to keep an engine, or to bring one.
  if (!model_.empty()) context_.metrics.model(model_).relayed.add();
  auto backend = choose();
  if (!backend) {
    refuse(503, "no healthy backend can take this request", "no_backend", RequestOutcome::kFailed);
    return;
  }
  send(std::move(backend));
}

void Passthrough::send(std::shared_ptr<Backend> backend) {
  backend_ = std::move(backend);
  relay_.emplace(exchange_, std::nullopt, false);
  context_.metrics.backend(backend_->name).requests.add();
  net::CallHandlers handlers;
  handlers.on_head = [this](net::ResponseHead head) {
    relay_->head(std::move(head),
                 {{"x-tailrace-request-id", request_id_}, {"x-tailrace-backend", backend_->name}});
  };
  handlers.on_body = [this](std::string_view bytes) { relay_->body(bytes, call_); };
  handlers.on_end = [this] {
    const auto self = shared_from_this();
    relay_->end();
    context_.health.passive_success(backend_->name);
    end(RequestOutcome::kCompleted, relay_->status());
  };
  handlers.on_error = [this](const net::CallError& error) {
    const auto self = shared_from_this();
    failed(error);
  };
  const auto& timeouts = context_.config.timeouts;
  call_ = context_.client.start(
      backend_->url.endpoint,
      upstream_head(exchange_->head(), backend_->url.prefix, backend_->api_key.reveal(),
                    request_id_),
      body_,
      {.connect = timeouts.connect, .first_byte = timeouts.first_byte, .idle = timeouts.idle},
      std::move(handlers));
}

void Passthrough::failed(const net::CallError& error) {
  context_.health.passive_failure(backend_->name, error.error.message);
  const bool late = error.error.code == ErrorCode::kDeadlineExceeded;
  if (relay_->begun()) {
    relay_->cut(late ? "the engine stopped sending" : "the engine failed while it answered",
                late ? "upstream_timeout" : "upstream_failed");
    end(late ? RequestOutcome::kTimedOut : RequestOutcome::kFailed, relay_->status());
    return;
  }
  failed_backends_.insert(backend_->name);
  call_.reset();
  // What may have reached an engine is not repeated: these requests can change things there.
  if (error.phase == net::CallPhase::kConnect) {
    if (auto other = choose()) {
      send(std::move(other));
      return;
    }
  }
  refuse(late ? 504 : 502,
         late ? "the engine did not answer in time" : "the engine failed before it answered",
         late ? "upstream_timeout" : "upstream_failed",
         late ? RequestOutcome::kTimedOut : RequestOutcome::kFailed);
}

void Passthrough::refuse(int status, std::string_view message, std::string_view code,
                         RequestOutcome outcome) {
  auto answer = error_answer(status, message, code);
  net::ResponseHead head;
  head.status = status;
  head.headers = {{"x-tailrace-request-id", request_id_}, {"content-type", "application/json"}};
  if (status == 503) head.headers.add("retry-after", "1");
  exchange_->respond(std::move(head), std::move(answer.body));
  end(outcome, status);
}

void Passthrough::shut_down() {
  if (ended_) return;
  const auto self = shared_from_this();
  if (relay_ && relay_->begun()) {
    relay_->cut("the gateway is shutting down", "shutting_down");
    end(RequestOutcome::kFailed, relay_->status());
  } else {
    refuse(503, "the gateway is shutting down; ask another replica", "draining",
           RequestOutcome::kRefused);
  }
}

void Passthrough::end(RequestOutcome outcome, int status) {
  ended_ = true;
  call_.reset();
  context_.relayed_bytes -= std::exchange(held_bytes_, 0);
  context_.metrics.count_request(model_, outcome, status);
  if (context_.config.logging.requests && log::enabled(log::Level::kInfo)) {
    log::info("relayed", {{"id", request_id_},
                          {"path", core::utf8_prefix(exchange_->head().path(), 128)},
                          {"model", core::utf8_prefix(model_, 128)},
                          {"outcome", to_string(outcome)},
                          {"status", status},
                          {"backend", backend_ ? std::string_view(backend_->name) : ""},
                          {"total_ms", to_millis(context_.loop.now() - arrival_)}});
  }
  context_.forget(id_);
}

}  // namespace tailrace::gateway
