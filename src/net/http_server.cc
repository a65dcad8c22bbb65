#include "tailrace/net/http_server.h"

#include <vector>

#include "net/server_connection.h"
#include "tailrace/core/log.h"

namespace tailrace::net {
namespace {

class ServerImpl final : public HttpServer {
 public:
  ServerImpl(EventLoop& loop, ServerLimits limits, Handler handler)
      : core_(std::make_shared<ServerCore>(loop, limits, std::move(handler))) {}

  ~ServerImpl() override {
    listener_.reset();
    core_->closed = true;
    for (const auto& connection : snapshot()) connection->shut(true);
  }

  Result<void> open(Network& network, const Endpoint& at) {
    auto listener = network.listen(
        at, [core = core_](std::unique_ptr<Stream> stream) { accept(core, std::move(stream)); });
    if (!listener) return fail(listener.error());
    listener_ = std::move(*listener);
    local_ = listener_->local();
    return {};
  }

  Endpoint local() const override { return local_; }
  std::size_t connections() const override { return core_->connections.size(); }
  std::size_t exchanges() const override { return core_->exchanges; }

  void close_when_idle() override {
    core_->draining = true;
    for (const auto& connection : snapshot()) {
      if (connection->idle()) connection->shut(false);
    }
  }
  void stop_accepting() override { listener_.reset(); }

 private:
  static void accept(const std::shared_ptr<ServerCore>& core, std::unique_ptr<Stream> stream) {
    if (core->closed) return;
    if (core->connections.size() >= core->limits.connections_max) {
      log::debug("connection_refused",
                 {{"peer", stream->peer()}, {"reason", "too many connections"}});
      return;
    }
    auto connection = std::make_shared<ServerConnection>(core, std::move(stream));
    core->connections.emplace(connection.get(), connection);
    connection->start();
  }

  std::vector<std::shared_ptr<ServerConnection>> snapshot() const {
    std::vector<std::shared_ptr<ServerConnection>> all;
    for (const auto& [key, connection] : core_->connections) all.push_back(connection);
    return all;
  }

  std::shared_ptr<ServerCore> core_;
  std::unique_ptr<Listener> listener_;
  Endpoint local_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(EventLoop& loop, Network& network,
                                                       const Endpoint& at, ServerLimits limits,
                                                       Handler handler) {
  auto server = std::make_unique<ServerImpl>(loop, limits, std::move(handler));
  const Result<void> opened = server->open(network, at);
  if (!opened) return fail(opened.error());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace tailrace::net
