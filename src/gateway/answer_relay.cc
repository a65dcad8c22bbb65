#include "gateway/answer_relay.h"

#include <utility>

#include "gateway/error_body.h"
#include "gateway/forward_headers.h"
#include "gateway/response_reader.h"
#include "tailrace/core/text.h"

namespace tailrace::gateway {
namespace {

/// The length that the engine announced, so that the client can check it as well.
std::optional<std::uint64_t> announced_length(const net::Headers& headers) {
  if (headers.find("transfer-encoding")) return std::nullopt;
  const auto value = headers.find("content-length");
  if (!value) return std::nullopt;
  const auto length = core::parse_int(core::trim(*value));
  if (!length || *length < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*length);
}

bool is_success(int status) {
  return status >= 200 && status < 300;
}

}  // namespace

AnswerRelay::AnswerRelay(std::shared_ptr<net::Exchange> exchange, std::optional<Route> route,
                         bool drop_caused_usage)
    : exchange_(std::move(exchange)), route_(route), drop_caused_usage_(drop_caused_usage) {}

void AnswerRelay::head(net::ResponseHead engine, const net::Headers& added) {
  length_ = announced_length(engine.headers);
  if (is_event_stream(engine.headers)) {
    filter_.emplace(route_.value_or(Route::kChat), drop_caused_usage_ && route_.has_value());
    length_.reset();  // an event may be dropped
  }
  engine_ = downstream_head(std::move(engine));
  for (const auto& header : added) engine_->headers.set(header.name, header.value);
}

void AnswerRelay::begin() {
  begun_ = true;
  exchange_->begin(*engine_, length_);
}

void AnswerRelay::body(std::string_view bytes, const std::shared_ptr<net::Call>& call) {
  if (!begun_) begin();
  bytes_ += bytes.size();
  if (filter_) {
    std::string out;
    out.reserve(bytes.size());
    filter_->feed(bytes, out);
    if (!out.empty()) exchange_->write(std::move(out));
  } else {
    if (route_ && whole_complete_) {
      whole_complete_ = whole_.size() + bytes.size() <= kAnswerBytesMax;
      if (whole_complete_) whole_.append(bytes);
    }
    exchange_->write(std::string(bytes));
  }
  if (call && !exchange_->writable()) {
    call->pause();
    exchange_->on_writable([weak = std::weak_ptr<net::Call>(call)] {
      if (auto paused = weak.lock()) paused->resume();
    });
  }
}

void AnswerRelay::end() {
  if (!begun_ && !filter_) {
    // An empty body needs no stream.
    begun_ = true;
    exchange_->respond(*engine_, {});
    return;
  }
  if (!begun_) begin();
  if (filter_) {
    std::string rest;
    filter_->finish(rest);
    if (!rest.empty()) exchange_->write(std::move(rest));
  } else if (route_ && whole_complete_) {
    facts_ = read_answer(*route_, whole_);
    facts_.failed = facts_.failed || !is_success(status());
    whole_ = {};
  }
  exchange_->finish();
}

void AnswerRelay::cut(std::string_view message, std::string_view code) {
  if (!filter_) {
    exchange_->abort();
    return;
  }
  // What the filter still holds is less than an event and would never be completed: it stays here.
  // A half-sent event is ended first, so that the error is an event of its own.
  std::string last = filter_->at_event_boundary() ? "" : "\n\n";
  last += error_event(message, "server_error", code);
  exchange_->write(std::move(last));
  exchange_->finish();
}

}  // namespace tailrace::gateway
