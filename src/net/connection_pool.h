// Which idle connection can be used again? Private to src/net.
#pragma once

#include <deque>
#include <map>
#include <memory>

#include "net/client_connection.h"
#include "net/deadline.h"
#include "tailrace/net/http_client.h"

namespace tailrace::net {

/// Idle connections per endpoint, the most recently used first out. One timer serves them all.
class ConnectionPool {
 public:
  ConnectionPool(EventLoop& loop, ClientOptions options);
  ~ConnectionPool();

  /// Nothing where none is idle.
  std::shared_ptr<ClientConnection> take(const Endpoint& endpoint);
  void put(std::shared_ptr<ClientConnection> connection);
  void forget(const Endpoint& endpoint);
  std::size_t idle() const;

 private:
  /// A connection at rest. Anything that arrives on it, an end of stream above all, ends it.
  struct Idle final : ClientConnection::Owner {
    Idle(ConnectionPool& p, std::shared_ptr<ClientConnection> c, MonoTime at)
        : pool(p), connection(std::move(c)), since(at) {}
    void received(std::span<char>) override { pool.drop(*this); }
    void read_failed(const Error&) override { pool.drop(*this); }
    void written(Result<void>) override {}
    ConnectionPool& pool;
    std::shared_ptr<ClientConnection> connection;
    MonoTime since;
  };
  using Queue = std::deque<std::unique_ptr<Idle>>;

  void drop(Idle& idle);
  void expire();

  EventLoop& loop_;
  ClientOptions options_;
  std::map<Endpoint, Queue> idle_;
  Deadline sweep_;
};

}  // namespace tailrace::net
