#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>

#include "net/asio_loop.h"
#include "net/connector.h"
#include "net/tcp_stream.h"
#include "tailrace/core/check.h"
#include "tailrace/core/log.h"
#include "tailrace/net/stream.h"

namespace tailrace::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr auto kAcceptPause = std::chrono::milliseconds(100);

/// Accepts until it is destroyed. Out of descriptors or memory it pauses, so that the loop does not
/// spin on a backlog that it cannot take; running connections free what is missing.
class TcpListener final : public Listener, public std::enable_shared_from_this<TcpListener> {
 public:
  using OnAccept = UniqueFunction<void(std::unique_ptr<Stream>)>;

  TcpListener(AsioLoop& loop, TcpAcceptor acceptor, Endpoint local, OnAccept on_accept)
      : loop_(loop),
        acceptor_(std::move(acceptor)),
        local_(std::move(local)),
        on_accept_(std::move(on_accept)) {}

  void accept_next() {
    acceptor_.async_accept([self = shared_from_this()](const error_code& ec, TcpSocket socket) {
      self->accepted(ec, std::move(socket));
    });
  }
  void close() {
    closed_ = true;
    error_code ignored;
    acceptor_.close(ignored);
    resume_.reset();
  }
  Endpoint local() const override { return local_; }

 private:
  void accepted(const error_code& ec, TcpSocket socket) {
    if (closed_) return;
    if (ec) return failed(ec);
    accept_next();
    prepare_socket(socket);
    on_accept_(make_tcp_stream(std::move(socket)));
  }

  void failed(const error_code& ec) {
    if (ec == asio::error::connection_aborted || ec == asio::error::interrupted) {
      return accept_next();
    }
    log::warn("accept_paused", {{"address", to_string(local_)}, {"error", ec.message()}});
    resume_ = loop_.after(kAcceptPause, [this] { accept_next(); });
  }

  AsioLoop& loop_;
  TcpAcceptor acceptor_;
  Endpoint local_;
  OnAccept on_accept_;
  std::unique_ptr<Timer> resume_;
  bool closed_ = false;
};

/// What the caller holds: the listener itself lives until its last accept has come back.
class ListenerHandle final : public Listener {
 public:
  explicit ListenerHandle(std::shared_ptr<TcpListener> listener) : listener_(std::move(listener)) {}
  ~ListenerHandle() override { listener_->close(); }
  Endpoint local() const override { return listener_->local(); }

 private:
  std::shared_ptr<TcpListener> listener_;
};

Result<std::vector<asio::ip::tcp::endpoint>> listen_addresses(AsioLoop& loop, const Endpoint& at) {
  if (at.host.empty()) {
    return std::vector<asio::ip::tcp::endpoint>{{asio::ip::tcp::v6(), at.port},
                                                {asio::ip::tcp::v4(), at.port}};
  }
  error_code ec;
  const asio::ip::address address = asio::ip::make_address(at.host, ec);
  if (!ec) return std::vector<asio::ip::tcp::endpoint>{{address, at.port}};
  TcpResolver resolver(loop.io());
  const auto results = resolver.resolve(at.host, std::to_string(at.port), ec);
  if (ec) {
    return fail(ErrorCode::kUnavailable,
                "cannot listen at " + to_string(at) + ": no such address: " + ec.message());
  }
  std::vector<asio::ip::tcp::endpoint> endpoints;
  for (const auto& result : results) endpoints.push_back(result.endpoint());
  return endpoints;
}

error_code open_acceptor(TcpAcceptor& acceptor, const asio::ip::tcp::endpoint& at, bool any) {
  error_code ec;
  acceptor.open(at.protocol(), ec);
  if (ec) return ec;
  acceptor.set_option(asio::socket_base::reuse_address(true), ec);
  if (any && at.protocol() == asio::ip::tcp::v6()) {
    acceptor.set_option(asio::ip::v6_only(false), ec);
  }
  acceptor.bind(at, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) {
    error_code ignored;
    acceptor.close(ignored);
  }
  return ec;
}

class SocketNetwork final : public Network {
 public:
  SocketNetwork(AsioLoop& loop, TlsOptions tls) : loop_(loop), tls_(std::move(tls)) {}

  Result<std::unique_ptr<Listener>> listen(const Endpoint& at,
                                           TcpListener::OnAccept on_accept) override {
    if (at.tls) {
      return fail(ErrorCode::kUnsupported,
                  "cannot listen with TLS at " + to_string(at) + "; put a TLS proxy in front");
    }
    const auto addresses = listen_addresses(loop_, at);
    if (!addresses) return fail(addresses.error());
    error_code ec;
    for (const auto& address : *addresses) {
      TcpAcceptor acceptor(loop_.io());
      ec = open_acceptor(acceptor, address, at.host.empty());
      if (ec) continue;
      const auto bound = acceptor.local_endpoint();
      auto listener = std::make_shared<TcpListener>(
          loop_, std::move(acceptor), Endpoint{bound.address().to_string(), bound.port(), false},
          std::move(on_accept));
      listener->accept_next();
      return std::unique_ptr<Listener>(std::make_unique<ListenerHandle>(std::move(listener)));
    }
    return fail(ErrorCode::kUnavailable, "cannot listen at " + to_string(at) + ": " + ec.message());
  }

  std::unique_ptr<Connecting> connect(
      const Endpoint& to, Duration timeout,
      UniqueFunction<void(Result<std::unique_ptr<Stream>>)> done) override {
    return start_connecting(loop_, tls_, to, timeout, std::move(done));
  }

 private:
  AsioLoop& loop_;
  TlsSettings tls_;
};

}  // namespace

std::unique_ptr<Network> make_socket_network(EventLoop& loop, TlsOptions tls) {
  auto* const asio_loop = dynamic_cast<AsioLoop*>(&loop);
  TAILRACE_CHECK(asio_loop != nullptr);
  return std::make_unique<SocketNetwork>(*asio_loop, std::move(tls));
}

}  // namespace tailrace::net
