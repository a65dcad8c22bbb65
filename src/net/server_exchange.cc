#include "net/server_connection.h"

namespace tailrace::net {

ServerExchange::~ServerExchange() {
  ServerConnection* const connection = connection_;
  if (connection == nullptr) return;
  detach(false);
  // A handler that lost the exchange owes the client an answer; silence would look like a hang.
  if (!connection->answered_) {
    connection->abandon_answer(begun_);
  }
}

ServerExchange::Callbacks ServerExchange::detach(bool gone) {
  if (connection_ != nullptr) {
    connection_->exchange_ = nullptr;
    --connection_->core_->exchanges;
    connection_ = nullptr;
    gone_ = gone;
  }
  return std::move(callbacks_);
}

void ServerExchange::finish_body(Result<std::string> body) {
  if (!callbacks_.body_done) return;
  auto done = std::move(callbacks_.body_done);
  done(std::move(body));
}

void ServerExchange::read_body(std::size_t max_bytes,
                               UniqueFunction<void(Result<std::string>)> done) {
  if (connection_ == nullptr || body_asked_) {
    const ErrorCode code = body_asked_ ? ErrorCode::kInternal : ErrorCode::kCancelled;
    loop_.post([done = std::move(done), code]() mutable {
      done(fail(code, code == ErrorCode::kInternal ? "the body was asked for before"
                                                   : "the client has left"));
    });
    return;
  }
  body_asked_ = true;
  callbacks_.body_done = std::move(done);
  connection_->ask_body(max_bytes);
}

void ServerExchange::on_client_gone(UniqueFunction<void()> handler) {
  if (connection_ != nullptr) {
    callbacks_.client_gone = std::move(handler);
  } else if (gone_ && handler) {
    loop_.post([handler = std::move(handler)]() mutable { handler(); });
  }
}

void ServerExchange::respond(ResponseHead head, std::string body) {
  if (connection_ == nullptr || begun_) return;
  begun_ = true;
  const auto self = shared_from_this();
  connection_->answer(std::move(head), std::move(body));
}

void ServerExchange::begin(ResponseHead head, std::optional<std::uint64_t> content_length) {
  if (connection_ == nullptr || begun_) return;
  begun_ = true;
  connection_->begin_answer(std::move(head), content_length);
}

void ServerExchange::write(std::string bytes) {
  if (connection_ == nullptr || !begun_ || connection_->answered_) return;
  const auto self = shared_from_this();
  connection_->write_answer(bytes);
}

void ServerExchange::finish() {
  if (connection_ == nullptr || !begun_ || connection_->answered_) return;
  const auto self = shared_from_this();
  connection_->finish_answer();
}

bool ServerExchange::writable() const {
  return connection_ == nullptr || connection_->writable();
}

void ServerExchange::on_writable(UniqueFunction<void()> handler) {
  if (connection_ == nullptr || !handler) return;
  callbacks_.writable = std::move(handler);
  if (!connection_->writable()) return;
  loop_.post([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || !self->callbacks_.writable || !self->writable()) return;
    auto due = std::move(self->callbacks_.writable);
    due();
  });
}

void ServerExchange::abort() {
  if (connection_ == nullptr) return;
  const auto self = shared_from_this();
  connection_->shut(true);
}

}  // namespace tailrace::net
