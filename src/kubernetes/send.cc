// One request and its repetitions.
#include <algorithm>

#include "kubernetes/api_core.h"

namespace tailrace::kubernetes {
namespace {

constexpr double kPauseMax_s = 5;

bool worth_repeating(int status) {
  return status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

/// No member is touched after `done` has run: it may destroy the call.
class SendCall final : public ApiCall {
 public:
  SendCall(std::shared_ptr<ApiCore> core, ApiRequest request,
           UniqueFunction<void(Result<ApiAnswer>)> done)
      : core_(std::move(core)),
        request_(std::move(request)),
        done_(std::move(done)),
        timeout_s_(request_.timeout_s > 0 ? request_.timeout_s : core_->config.request_timeout_s),
        end_(core_->loop.now() + from_seconds(timeout_s_)) {
    if (!request_.body.empty()) body_ = std::make_shared<const std::string>(request_.body);
    deadline_ = core_->loop.at(end_, [this] {
      call_.reset();
      retry_.reset();
      if (last_) return finish(std::move(*last_));
      finish(fail(ErrorCode::kDeadlineExceeded,
                  spoken(request_) + ": the server did not answer in time"));
    });
    attempt();
  }

 private:
  void attempt() {
    net::RequestHead head = core_->head(request_.method, request_.path);
    if (body_) {
      head.headers.add("Content-Type",
                       request_.content_type.empty() ? "application/json" : request_.content_type);
    }
    answer_ = {};
    net::CallHandlers handlers;
    handlers.on_head = [this](const net::ResponseHead& answered) {
      answer_.status = answered.status;
      answer_.retry_after_s = retry_after(answered.headers);
    };
    handlers.on_body = [this](std::string_view bytes) {
      if (answer_.body.size() + bytes.size() > core_->config.answer_bytes_max) {
        call_.reset();
        return finish(fail(ErrorCode::kResourceExhausted,
                           spoken(request_) + ": the answer is longer than " +
                               std::to_string(core_->config.answer_bytes_max) + " bytes"));
      }
      answer_.body.append(bytes);
    };
    handlers.on_end = [this] {
      const double asked_s = answer_.retry_after_s.value_or(0);
      settle(std::move(answer_), asked_s);
    };
    handlers.on_error = [this](const net::CallError& error) {
      settle(fail(error.error.with_context(spoken(request_))), 0);
    };
    call_ = core_->client->start(core_->access.server.endpoint, std::move(head), body_,
                                 core_->timeouts(timeout_s_), std::move(handlers));
  }

  void settle(Result<ApiAnswer> result, double pause_at_least_s) {
    const bool again =
        request_.method == "GET" &&
        (result ? worth_repeating(result->status) : result.error().code != ErrorCode::kDataLoss);
    const Duration pause =
        std::max(core_->pause(core_->config.retry_pause_s, attempts_, kPauseMax_s),
                 from_seconds(pause_at_least_s));
    if (!again || pause >= end_ - core_->loop.now()) return finish(std::move(result));
    ++attempts_;
    last_ = std::move(result);
    retry_ = core_->loop.after(pause, [this] { attempt(); });
  }

  void finish(Result<ApiAnswer> result) {
    deadline_.reset();
    auto done = std::move(done_);
    done(std::move(result));
  }

  std::shared_ptr<ApiCore> core_;
  const ApiRequest request_;
  UniqueFunction<void(Result<ApiAnswer>)> done_;
  const double timeout_s_;
  const MonoTime end_;
  std::shared_ptr<const std::string> body_;
  ApiAnswer answer_;
  std::optional<Result<ApiAnswer>> last_;  ///< of the attempt before
  int attempts_ = 0;
  std::unique_ptr<net::Call> call_;
  std::unique_ptr<net::Timer> deadline_, retry_;
};

}  // namespace

std::unique_ptr<ApiCall> start_send(std::shared_ptr<ApiCore> core, ApiRequest request,
                                    UniqueFunction<void(Result<ApiAnswer>)> done) {
  return std::make_unique<SendCall>(std::move(core), std::move(request), std::move(done));
}

}  // namespace tailrace::kubernetes
