#include "net/client_call.h"

#include <algorithm>

namespace tailrace::net {
namespace {

/// What one asynchronous write carries: a slow peer costs this much memory beside the shared body.
constexpr std::size_t kSliceBytes = 256 * 1024;
constexpr int kInformationalHeadsMax = 16;
/// A write failed, so the connection is dead; a read must say so by then.
constexpr auto kBrokenWriteGrace = std::chrono::seconds(1);

}  // namespace

ClientCall::ClientCall(ClientCore& core, Endpoint to, std::string head, std::string method,
                       std::shared_ptr<const std::string> body, CallTimeouts timeouts,
                       CallHandlers handlers)
    : core_(&core),
      to_(std::move(to)),
      head_(std::move(head)),
      method_(std::move(method)),
      body_(std::move(body)),
      timeouts_(timeouts),
      handlers_(std::move(handlers)),
      deadline_(core.loop, [this] { expired(); }),
      scanner_(core.options.head_bytes_max, core.options.headers_max) {
  core.calls.insert(this);
}

template <class Handler, class... Args>
bool ClientCall::report(Handler& handler, Args&&... args) {
  if (!handler) return state_ != State::kFinished;
  ++handlers_running_;
  handler(std::forward<Args>(args)...);
  --handlers_running_;
  return state_ != State::kFinished;
}

// ---- Connecting and sending
// -----------------------------------------------------------------------

void ClientCall::start() {
  // Nothing may be reported inside the caller's start(), hence the detour through the loop.
  core_->loop.post([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->state_ != State::kConnecting) return;
    if (auto idle = self->core_->pool.take(self->to_)) {
      self->reused_ = true;
      return self->use(std::move(idle));
    }
    self->connect();
  });
}

void ClientCall::connect() {
  state_ = State::kConnecting;
  connecting_ = core_->network.connect(
      to_, timeouts_.connect, [this](Result<std::unique_ptr<Stream>> stream) {
        const auto self = shared_from_this();
        const auto attempt = std::move(connecting_);
        if (!stream) return fail_call(stream.error().code, stream.error().message);
        use(std::make_shared<ClientConnection>(to_, std::move(*stream)));
      });
}

void ClientCall::use(std::shared_ptr<ClientConnection> connection) {
  connection_ = std::move(connection);
  connection_->set_owner(this);
  state_ = State::kHead;
  if (!std::exchange(announced_, true) && !report(handlers_.on_connected)) return;
  if (!paused_) connection_->read_more();
  const std::string_view body = body_ ? std::string_view(*body_) : std::string_view();
  const std::string_view pieces[] = {head_, body};
  const std::size_t sent = connection_->stream->try_write(pieces);
  written_at_check_ = connection_->stream->bytes_written();
  deadline_.set(timeouts_.first_byte);
  if (sent >= head_.size()) {
    body_sent_ = sent - head_.size();
    return send_more();
  }
  connection_->write(head_.substr(sent));
}

void ClientCall::send_more() {
  const std::string_view body = body_ ? std::string_view(*body_) : std::string_view();
  if (body_sent_ == body.size()) return sent_all();
  const std::string_view slice = body.substr(body_sent_, kSliceBytes);
  body_sent_ += slice.size();
  connection_->write(std::string(slice));
}

void ClientCall::sent_all() {
  send_done_ = true;
  if (state_ == State::kHead) deadline_.set(timeouts_.first_byte);
}

void ClientCall::written(Result<void> result) {
  if (result) return send_more();
  // The server may have answered before it hung up (a 413, say): what it sent is still to be read.
  write_failed_ = true;
  deadline_.set(kBrokenWriteGrace);
}

/// The connection ended before the answer's first byte. One that had rested in the pool may simply
/// have been closed by the server meanwhile; the request has then not been looked at.
bool ClientCall::retry() {
  if (!reused_ || retried_ || answer_begun_ || state_ != State::kHead) return false;
  retried_ = true;
  reused_ = false;
  release();
  body_sent_ = 0;
  send_done_ = false;
  write_failed_ = false;
  deadline_.clear();
  connect();
  return true;
}

// ---- Receiving
// ------------------------------------------------------------------------------------

void ClientCall::received(std::span<char> bytes) {
  const auto self = shared_from_this();
  if (bytes.empty()) return ended_by_peer();
  answer_begun_ = true;
  if (state_ == State::kHead) {
    take_head(bytes);
  } else {
    take_body(bytes);
  }
  if (state_ == State::kFinished) return;
  watch();
  if (!paused_) connection_->read_more();
}

void ClientCall::read_failed(const Error& error) {
  const auto self = shared_from_this();
  if (retry()) return;
  fail_call(error.code == ErrorCode::kDeadlineExceeded ? error.code : ErrorCode::kUnavailable,
            error.message);
}

void ClientCall::ended_by_peer() {
  if (retry()) return;
  if (state_ == State::kBody && decoder_.framing().kind == BodyFraming::Kind::kUntilClose) {
    return finish(false);
  }
  fail_call(ErrorCode::kUnavailable,
            state_ == State::kBody ? "the server closed the connection in the middle of its answer"
                                   : "the server closed the connection without an answer");
}

void ClientCall::take_head(std::span<char> bytes) {
  head_bytes_.append(bytes.data(), bytes.size());
  for (;;) {
    const Result<std::size_t> size = scanner_.scan(head_bytes_);
    if (!size) return fail_call(ErrorCode::kDataLoss, size.error().message);
    if (*size == 0) return;
    Result<ParsedResponse> parsed =
        parse_response_head(std::string_view(head_bytes_).substr(0, *size));
    if (!parsed) return fail_call(ErrorCode::kDataLoss, parsed.error().message);
    head_bytes_.erase(0, *size);
    scanner_.reset();
    ResponseHead& head = parsed->head;
    if (head.status / 100 == 1) {
      if (head.status == 101 || ++informational_heads_ > kInformationalHeadsMax) {
        return fail_call(ErrorCode::kDataLoss, "the server sent an answer that was not asked for");
      }
      continue;
    }
    const Result<BodyFraming> framing = response_framing(head, method_);
    if (!framing) return fail_call(ErrorCode::kDataLoss, framing.error().message);
    decoder_ = BodyDecoder(*framing);
    keep_alive_ =
        !head.headers.has_token("connection", "close") &&
        (parsed->minor_version == 1 || head.headers.has_token("connection", "keep-alive"));
    state_ = State::kBody;
    deadline_.clear();
    if (!report(handlers_.on_head, std::move(head))) return;
    std::string rest = std::exchange(head_bytes_, {});
    return take_body(rest);
  }
}

void ClientCall::take_body(std::span<char> bytes) {
  const auto progress = decoder_.decode(bytes);
  if (!progress) return fail_call(ErrorCode::kDataLoss, progress.error().message);
  const bool surplus = progress->consumed < bytes.size();
  if (progress->content > 0 &&
      !report(handlers_.on_body, std::string_view(bytes.data(), progress->content))) {
    return;
  }
  // Bytes behind the answer belong to nobody: such a connection must not serve another request.
  if (progress->done) finish(!surplus);
}

void ClientCall::watch() {
  if (state_ == State::kBody && !paused_) deadline_.set(timeouts_.idle);
}

void ClientCall::resume() {
  if (!std::exchange(paused_, false) || !connection_ || state_ == State::kFinished) return;
  watch();
  connection_->read_more();
}

void ClientCall::expired() {
  const auto self = shared_from_this();
  if (write_failed_) {
    return fail_call(ErrorCode::kUnavailable, "the server took no more of the request");
  }
  if (state_ == State::kBody) {
    if (paused_) return;
    return fail_call(ErrorCode::kDeadlineExceeded,
                     "the server stopped in the middle of its answer");
  }
  const std::uint64_t written = connection_ ? connection_->stream->bytes_written() : 0;
  if (!send_done_ && std::exchange(written_at_check_, written) != written) {
    return deadline_.set(timeouts_.first_byte);  // a slow upload is not a slow answer
  }
  fail_call(ErrorCode::kDeadlineExceeded, send_done_
                                              ? "the server did not begin to answer in time"
                                              : "the server did not take the request in time");
}

// ---- Ending
// ---------------------------------------------------------------------------------------

CallPhase ClientCall::phase() const {
  if (state_ == State::kBody) return CallPhase::kBody;
  if (state_ == State::kConnecting) return CallPhase::kConnect;
  return send_done_ ? CallPhase::kFirstByte : CallPhase::kSend;
}

void ClientCall::release() {
  if (!connection_) return;
  connection_->set_owner(nullptr);
  connection_->stream->close();
  connection_.reset();
}

void ClientCall::finish(bool reusable) {
  state_ = State::kFinished;
  deadline_.clear();
  core_->calls.erase(this);
  if (reusable && keep_alive_ && send_done_ && !write_failed_) {
    connection_->set_owner(nullptr);
    core_->pool.put(std::exchange(connection_, nullptr));
  }
  release();
  core_ = nullptr;
  CallHandlers handlers = std::move(handlers_);
  if (handlers.on_end) handlers.on_end();
}

void ClientCall::fail_call(ErrorCode code, std::string message) {
  const CallPhase failed_in = phase();
  state_ = State::kFinished;
  deadline_.clear();
  connecting_.reset();
  core_->calls.erase(this);
  core_ = nullptr;
  release();
  CallHandlers handlers = std::move(handlers_);
  if (handlers.on_error) {
    handlers.on_error({failed_in, Error{code, to_string(to_) + ": " + std::move(message)}});
  }
}

void ClientCall::cancel() {
  if (state_ == State::kFinished) return;
  const auto self = shared_from_this();
  state_ = State::kFinished;
  deadline_.clear();
  connecting_.reset();
  core_->calls.erase(this);
  core_ = nullptr;
  release();
  // A handler that is running now must not be destroyed under its own feet.
  if (handlers_running_ == 0) const CallHandlers dropped = std::move(handlers_);
}

}  // namespace tailrace::net
