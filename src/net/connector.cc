#include "net/connector.h"

#include <boost/asio/connect.hpp>

#include "net/tcp_stream.h"
#include "net/tls_stream.h"

namespace tailrace::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Done = UniqueFunction<void(Result<std::unique_ptr<Stream>>)>;
using Endpoints = std::vector<asio::ip::tcp::endpoint>;

/// Resolve, connect, shake hands: one attempt. Abandoned by forgetting `done` and closing the
/// socket.
class Attempt : public std::enable_shared_from_this<Attempt> {
 public:
  Attempt(AsioLoop& loop, TlsSettings& tls, Endpoint to, Done done)
      : loop_(loop),
        tls_(tls),
        to_(std::move(to)),
        resolver_(loop.io()),
        socket_(loop.io()),
        done_(std::move(done)) {}

  void start(Duration timeout) {
    if (timeout > Duration{0}) {
      timer_ = loop_.after(timeout, [self = weak_from_this()] {
        if (const auto attempt = self.lock()) attempt->time_out();
      });
    }
    error_code ec;
    const asio::ip::address literal = asio::ip::make_address(to_.host, ec);
    if (!ec) return connect({{literal, to_.port}});
    resolver_.async_resolve(to_.host, std::to_string(to_.port),
                            [self = shared_from_this()](const error_code& error,
                                                        const TcpResolver::results_type& found) {
                              if (!self->done_) return;
                              if (error) return self->fail_with(error, "cannot resolve ");
                              Endpoints endpoints;
                              for (const auto& entry : found) endpoints.push_back(entry.endpoint());
                              self->connect(std::move(endpoints));
                            });
  }

  void abandon() {
    const Done dropped = std::move(done_);
    close();
  }

 private:
  void connect(Endpoints endpoints) {
    endpoints_ = std::move(endpoints);
    asio::async_connect(socket_, endpoints_,
                        [self = shared_from_this()](const error_code& ec, const auto&) {
                          if (self->done_) self->connected(ec);
                        });
  }

  void connected(const error_code& ec) {
    if (ec) return fail_with(ec, "cannot connect to ");
    prepare_socket(socket_);
    if (!to_.tls) return finish(make_tcp_stream(std::move(socket_)));
    const auto context = tls_.context();
    if (!context) return finish(fail(context.error()));
    handshake_ = start_tls(std::move(socket_), **context, to_.host, tls_.verifies(),
                           [self = weak_from_this()](Result<std::unique_ptr<Stream>> result) {
                             if (const auto attempt = self.lock())
                               attempt->finish(std::move(result));
                           });
  }

  void time_out() {
    close();
    finish(fail(ErrorCode::kDeadlineExceeded,
                "cannot connect to " + to_string(to_) + ": no connection within the time-out"));
  }

  void fail_with(const error_code& ec, const char* what) {
    finish(fail(socket_error(ec, what + to_string(to_)).code == ErrorCode::kDeadlineExceeded
                    ? ErrorCode::kDeadlineExceeded
                    : ErrorCode::kUnavailable,
                what + to_string(to_) + ": " + ec.message()));
  }

  void finish(Result<std::unique_ptr<Stream>> result) {
    timer_.reset();
    if (!done_) return;
    Done done = std::move(done_);
    done(std::move(result));
  }

  void close() {
    timer_.reset();
    resolver_.cancel();
    error_code ignored;
    socket_.close(ignored);
    handshake_.reset();
  }

  AsioLoop& loop_;
  TlsSettings& tls_;
  Endpoint to_;
  TcpResolver resolver_;
  TcpSocket socket_;
  Endpoints endpoints_;
  std::unique_ptr<Timer> timer_;
  std::unique_ptr<Connecting> handshake_;
  Done done_;
};

class AttemptHandle final : public Connecting {
 public:
  explicit AttemptHandle(std::shared_ptr<Attempt> attempt) : attempt_(std::move(attempt)) {}
  ~AttemptHandle() override { attempt_->abandon(); }

 private:
  std::shared_ptr<Attempt> attempt_;
};

}  // namespace

std::unique_ptr<Connecting> start_connecting(AsioLoop& loop, TlsSettings& tls, const Endpoint& to,
                                             Duration timeout, Done done) {
  auto attempt = std::make_shared<Attempt>(loop, tls, to, std::move(done));
  attempt->start(timeout);
  return std::make_unique<AttemptHandle>(std::move(attempt));
}

}  // namespace tailrace::net
