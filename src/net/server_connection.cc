#include "net/server_connection.h"

#include <algorithm>

#include "tailrace/core/check.h"

namespace tailrace::net {
namespace {

constexpr std::size_t kReadBytes = 8 * 1024;
/// A large body is read in larger pieces: fewer system calls, and the buffer goes when the body
/// ends.
constexpr std::size_t kBodyReadBytes = 256 * 1024;
/// Requests that a client sends ahead wait here; beyond it nothing is read until the answer is out.
constexpr std::size_t kPipelinedBytesMax = 64 * 1024;
/// A body that the handler did not want is read up to here to save the connection.
constexpr std::size_t kDiscardBytesMax = 256 * 1024;
constexpr std::size_t kKeptInputBytes = 4 * 1024;
constexpr auto kLingerTimeout = std::chrono::seconds(2);
constexpr int kWriteChecks = 4;

/// RFC 9112, 3.2.2: "http://host/path", as for a proxy, means "/path" here.
void to_origin_form(std::string& target) {
  const bool absolute = target.starts_with("http://") || target.starts_with("https://");
  if (!absolute) return;
  const std::size_t path = target.find_first_of("/?", target.find("//") + 2);
  target.erase(0, std::min(path, target.size()));
  if (!target.starts_with('/')) target.insert(0, 1, '/');
}

std::string error_body(std::string_view message, std::string_view type = "invalid_request_error") {
  // The messages are ours and hold no character that JSON escapes, apart from quoted input.
  std::string escaped;
  for (const char c : message) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return R"({"error":{"message":")" + escaped + R"(","type":")" + std::string(type) + R"("}})";
}

}  // namespace

ServerConnection::ServerConnection(std::shared_ptr<ServerCore> core, std::unique_ptr<Stream> stream)
    : core_(std::move(core)),
      stream_(std::move(stream)),
      queue_(*stream_, [this](Result<void> result) { settled(std::move(result)); }),
      read_deadline_(core_->loop, [this] { read_expired(); }),
      write_deadline_(core_->loop, [this] { writes_stalled(); }),
      scanner_(core_->limits.head_bytes_max, core_->limits.headers_max),
      read_buffer_(kReadBytes) {}

void ServerConnection::start() {
  process();
}

// ---- Reading
// --------------------------------------------------------------------------------------

bool ServerConnection::wants_read() const {
  if (state_ == State::kClosed) return false;
  return state_ != State::kExchange || body_wanted_ || in_.size() < kPipelinedBytesMax;
}

void ServerConnection::read_more() {
  if (reading_ || !wants_read()) return;
  reading_ = true;
  const bool large = body_wanted_ && decoder_.remaining() > kBodyReadBytes;
  const std::size_t size = large ? kBodyReadBytes : kReadBytes;
  if (read_buffer_.size() != size) read_buffer_ = std::vector<char>(size);
  stream_->read(read_buffer_, [this](Result<std::size_t> result) { received(std::move(result)); });
}

void ServerConnection::received(Result<std::size_t> result) {
  const auto self = shared_from_this();
  reading_ = false;
  if (state_ == State::kClosed) return;
  if (!result || *result == 0) return client_left();
  in_.append(read_buffer_.data(), *result);
  if (state_ == State::kExchange && body_wanted_) read_deadline_.set(core_->limits.body_timeout);
  process();
}

/// Works off what has been received until more is needed. A handler that answers at once brings the
/// loop to the next request, so pipelined requests do not nest.
void ServerConnection::process() {
  if (processing_) return;
  const auto self = shared_from_this();
  processing_ = true;
  while (advance()) {
  }
  processing_ = false;
  if (state_ == State::kClosed) return;
  if (in_.empty() && in_.capacity() > kKeptInputBytes) std::string().swap(in_);
  read_more();
}

/// One step of the read side; false where it has to wait for something.
bool ServerConnection::advance() {
  switch (state_) {
    case State::kHead:
      return take_head();
    case State::kExchange:
      return take_body();
    case State::kDiscard:
      return discard_body();
    case State::kLinger:
      linger();
      return false;
    case State::kClosed:
      return false;
  }
  return false;
}

bool ServerConnection::take_head() {
  while (in_.starts_with("\r\n")) {  // RFC 9112, 2.2: empty lines before a request are skipped
    in_.erase(0, 2);
    scanner_.reset();
  }
  if (in_.empty()) {
    read_deadline_.set(core_->limits.idle_timeout);
    return false;
  }
  const bool first_bytes = !scanner_.begun();
  const Result<std::size_t> size = scanner_.scan(in_);
  if (!size) {
    reject(size.error().code == ErrorCode::kResourceExhausted ? 431 : 400, size.error().message);
    return true;
  }
  if (*size == 0) {
    if (first_bytes) read_deadline_.set(core_->limits.head_timeout);
    return false;
  }
  Result<RequestHead> head = parse_request_head(std::string_view(in_).substr(0, *size));
  in_.erase(0, *size);
  scanner_.reset();
  read_deadline_.clear();
  if (!head) {
    reject(head.error().code == ErrorCode::kUnsupported ? 505 : 400, head.error().message);
    return true;
  }
  const std::size_t hosts = head->headers.count("host");
  if (hosts > 1 || (hosts == 0 && head->minor_version == 1)) {
    reject(400, "malformed head: a request has exactly one Host header");
    return true;
  }
  to_origin_form(head->target);
  const Result<BodyFraming> framing = request_framing(*head);
  if (!framing) {
    reject(400, framing.error().message);
    return true;
  }
  open_exchange(std::move(*head), *framing);
  return true;
}

void ServerConnection::open_exchange(RequestHead head, BodyFraming framing) {
  state_ = State::kExchange;
  decoder_ = BodyDecoder(framing);
  release_body();
  body_wanted_ = false;
  answered_ = false;
  http10_ = head.minor_version == 0;
  head_request_ = head.method == "HEAD";
  expects_continue_ =
      !http10_ && !decoder_.done() && head.headers.has_token("expect", "100-continue");
  keep_alive_ = !head.headers.has_token("connection", "close") &&
                (!http10_ || head.headers.has_token("connection", "keep-alive"));
  const auto exchange =
      std::make_shared<ServerExchange>(core_->loop, *this, std::move(head), stream_->peer());
  exchange_ = exchange.get();
  ++core_->exchanges;
  core_->handler(exchange);
}

void ServerConnection::ask_body(std::size_t max_bytes) {
  const auto later = [&](Result<std::string> result) {
    core_->loop.post([weak = exchange_->weak_from_this(), result = std::move(result)]() mutable {
      if (const auto exchange = weak.lock()) exchange->finish_body(std::move(result));
    });
  };
  if (decoder_.done()) return later(std::string());
  if (decoder_.remaining() > max_bytes) {
    keep_alive_ = false;
    return later(fail(ErrorCode::kResourceExhausted,
                      "the body has " + std::to_string(decoder_.remaining()) + " bytes; at most " +
                          std::to_string(max_bytes) + " are accepted"));
  }
  body_bytes_max_ = max_bytes;
  body_wanted_ = true;
  read_deadline_.set(core_->limits.body_timeout);
  if (expects_continue_ && in_.empty()) queue_.send("HTTP/1.1 100 Continue\r\n\r\n");
  expects_continue_ = false;
  if (in_.empty()) return read_more();
  core_->loop.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->process();
  });
}

bool ServerConnection::take_body() {
  if (!body_wanted_ || in_.empty()) return false;
  const auto progress = decoder_.decode(in_);
  if (!progress) {
    keep_alive_ = false;
    end_body(fail(progress.error()));
    return true;
  }
  if (progress->content > body_bytes_max_ - body_.size()) {
    keep_alive_ = false;
    end_body(fail(ErrorCode::kResourceExhausted, "the body is longer than the accepted " +
                                                     std::to_string(body_bytes_max_) + " bytes"));
    return true;
  }
  if (progress->content > core_->limits.receiving_bytes_max - core_->receiving_bytes) {
    keep_alive_ = false;
    end_body(fail(ErrorCode::kUnavailable, "too many request bytes are being received at once"));
    return true;
  }
  core_->receiving_bytes += progress->content;
  body_.append(in_.data(), progress->content);
  in_.erase(0, progress->consumed);
  if (!progress->done) return false;
  end_body(release_body());
  return true;
}

/// The body so far, which no longer counts as being received.
std::string ServerConnection::release_body() {
  core_->receiving_bytes -= body_.size();
  return std::exchange(body_, {});
}

void ServerConnection::end_body(Result<std::string> body) {
  body_wanted_ = false;
  read_deadline_.clear();
  if (!body) release_body();
  if (exchange_ != nullptr) exchange_->shared_from_this()->finish_body(std::move(body));
}

/// What is left of a body nobody asked for, so that the next request can follow.
bool ServerConnection::discard_body() {
  const auto progress = decoder_.decode(in_);
  if (!progress) {
    state_ = State::kLinger;
    return true;
  }
  in_.erase(0, progress->consumed);
  discarded_bytes_ += progress->consumed;
  if (progress->done) {
    state_ = State::kHead;
    return true;
  }
  if (discarded_bytes_ > kDiscardBytesMax) {
    shut(false);
  } else {
    read_deadline_.set(core_->limits.body_timeout);
  }
  return false;
}

/// After the last answer: closing with unread input would reset the connection and could destroy
/// the answer on its way, so input is dropped for a moment until the client closes.
void ServerConnection::linger() {
  std::string().swap(in_);
}

void ServerConnection::read_expired() {
  const auto self = shared_from_this();
  switch (state_) {
    case State::kHead:
      if (in_.empty()) return shut(false);
      reject(408, "the request head did not arrive in time");
      return process();
    case State::kExchange:
      if (!body_wanted_) return;
      keep_alive_ = false;
      return end_body(
          fail(ErrorCode::kDeadlineExceeded, "the request body did not arrive in time"));
    case State::kDiscard:
    case State::kLinger:
      return shut(false);
    case State::kClosed:
      return;
  }
}

void ServerConnection::client_left() {
  if (exchange_ == nullptr) return shut(false);
  const auto exchange = exchange_->shared_from_this();
  auto callbacks = exchange->detach(true);
  shut(true);
  if (callbacks.body_done) {
    callbacks.body_done(fail(ErrorCode::kCancelled, "the client left while sending the body"));
  }
  if (callbacks.client_gone) callbacks.client_gone();
}

void ServerConnection::reject(int status, std::string_view message) {
  keep_alive_ = false;
  head_request_ = false;
  http10_ = false;
  decoder_ = BodyDecoder();
  state_ = State::kExchange;  // no exchange object: nothing is read as a request any more
  ResponseHead head{status, "", {{"Content-Type", "application/json"}}};
  answer(std::move(head), error_body(message));
}

// ---- Answering
// ------------------------------------------------------------------------------------

bool ServerConnection::bodiless_answer(int status) const {
  return head_request_ || status / 100 == 1 || status == 204 || status == 304;
}

/// Settles whether the connection survives the answer, and makes the head say so.
std::string ServerConnection::prepare_head(ResponseHead head, bool framed) {
  const std::uint64_t unread = decoder_.remaining();
  if (core_->draining || head.headers.has_token("connection", "close") || expects_continue_ ||
      unread > kDiscardBytesMax || (http10_ && !framed)) {
    keep_alive_ = false;
  }
  head.headers.remove("connection");
  head.headers.remove("keep-alive");
  if (!keep_alive_) {
    head.headers.add("Connection", "close");
  } else if (http10_) {
    head.headers.add("Connection", "keep-alive");
  }
  return serialize(head);
}

void ServerConnection::answer(ResponseHead head, std::string body) {
  const auto self = shared_from_this();
  head.headers.remove("transfer-encoding");
  const bool bodiless = bodiless_answer(head.status);
  // The length of what GET would have answered is the handler's to know.
  if (!bodiless || (head_request_ && !head.headers.find("content-length"))) {
    head.headers.set("Content-Length", std::to_string(body.size()));
  }
  const std::string bytes = prepare_head(std::move(head), true);
  const std::string_view pieces[] = {bytes, bodiless ? std::string_view() : std::string_view(body)};
  queue_.send(pieces);
  answered_ = true;
  watch_writes();
  complete_if_flushed();
}

void ServerConnection::begin_answer(ResponseHead head,
                                    std::optional<std::uint64_t> content_length) {
  head.headers.remove("transfer-encoding");
  const bool bodiless = bodiless_answer(head.status);
  if (!bodiless) head.headers.remove("content-length");
  answer_left_ = content_length.value_or(0);
  if (bodiless) {
    answer_body_ = AnswerBody::kNone;
  } else if (content_length) {
    answer_body_ = AnswerBody::kLength;
    head.headers.add("Content-Length", std::to_string(*content_length));
  } else if (http10_) {
    answer_body_ = AnswerBody::kUntilClose;
  } else {
    answer_body_ = AnswerBody::kChunked;
    head.headers.add("Transfer-Encoding", "chunked");
  }
  // Held until the handler's first write or the end of this turn, so that both leave in one write.
  queue_.hold(prepare_head(std::move(head), answer_body_ != AnswerBody::kUntilClose));
  core_->loop.post([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->state_ == State::kClosed || !self->queue_.holding()) return;
    self->queue_.flush();
    self->watch_writes();
  });
}

void ServerConnection::write_answer(std::string_view bytes) {
  if (bytes.empty() || answer_body_ == AnswerBody::kNone)
    return;  // an empty chunk would end the body
  if (answer_body_ == AnswerBody::kLength) {
    if (bytes.size() > answer_left_)
      return shut(true);  // more than announced: never a silent mix-up
    answer_left_ -= bytes.size();
  }
  if (answer_body_ == AnswerBody::kChunked) {
    std::array<char, 20> buffer;
    const std::string_view pieces[] = {chunk_head(bytes.size(), buffer), bytes, "\r\n"};
    queue_.send(pieces);
  } else {
    queue_.send(bytes);
  }
  watch_writes();
}

void ServerConnection::finish_answer() {
  const auto self = shared_from_this();
  if (answer_body_ == AnswerBody::kLength && answer_left_ > 0) return shut(true);
  if (answer_body_ == AnswerBody::kChunked) {
    queue_.send("0\r\n\r\n");
  } else {
    queue_.flush();
  }
  answered_ = true;
  watch_writes();
  complete_if_flushed();
}

/// The handler let go of the exchange without an answer.
void ServerConnection::abandon_answer(bool begun) {
  if (begun) return shut(true);
  answer({500, "", {{"Content-Type", "application/json"}}},
         error_body("no answer was produced", "server_error"));
}

void ServerConnection::watch_writes() {
  if (state_ == State::kClosed || queue_.idle() || write_deadline_.active()) return;
  written_at_check_ = stream_->bytes_written();
  stalled_checks_ = 0;
  write_deadline_.set(core_->limits.write_timeout / kWriteChecks);
}

void ServerConnection::writes_stalled() {
  const auto self = shared_from_this();
  if (queue_.idle()) return;
  const bool progress = stream_->bytes_written() != written_at_check_;
  written_at_check_ = stream_->bytes_written();
  stalled_checks_ = progress ? 0 : stalled_checks_ + 1;
  if (stalled_checks_ >= kWriteChecks) return exchange_ != nullptr ? client_left() : shut(true);
  write_deadline_.set(core_->limits.write_timeout / kWriteChecks);
}

void ServerConnection::settled(Result<void> result) {
  const auto self = shared_from_this();
  if (state_ == State::kClosed) return;
  if (!result) return client_left();
  if (queue_.idle()) write_deadline_.clear();
  if (exchange_ != nullptr && exchange_->callbacks_.writable && writable()) {
    const auto exchange = exchange_->shared_from_this();
    auto handler = std::move(exchange->callbacks_.writable);
    handler();
    if (state_ == State::kClosed) return;
  }
  complete_if_flushed();
}

void ServerConnection::complete_if_flushed() {
  if (!answered_ || !queue_.idle() || state_ != State::kExchange) return;
  ServerExchange::Callbacks dropped;
  if (exchange_ != nullptr) dropped = exchange_->detach(false);
  after_answer();
  process();
}

void ServerConnection::after_answer() {
  answered_ = false;
  body_wanted_ = false;
  discarded_bytes_ = 0;
  if (!keep_alive_) {
    state_ = State::kLinger;
    stream_->shutdown_write();
    read_deadline_.set(kLingerTimeout);
  } else if (!decoder_.done()) {
    state_ = State::kDiscard;
  } else {
    state_ = State::kHead;
    if (core_->draining && in_.empty()) shut(false);
  }
}

void ServerConnection::shut(bool reset) {
  if (state_ == State::kClosed) return;
  const auto self = shared_from_this();
  state_ = State::kClosed;
  ServerExchange::Callbacks dropped;
  if (exchange_ != nullptr) dropped = exchange_->detach(true);
  read_deadline_.clear();
  write_deadline_.clear();
  release_body();
  stream_->close(reset);
  core_->connections.erase(this);
}

}  // namespace tailrace::net
