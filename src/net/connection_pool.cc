#include "net/connection_pool.h"

#include <algorithm>

namespace tailrace::net {

ConnectionPool::ConnectionPool(EventLoop& loop, ClientOptions options)
    : loop_(loop), options_(options), sweep_(loop, [this] { expire(); }) {}

ConnectionPool::~ConnectionPool() {
  for (const auto& [endpoint, queue] : idle_) {
    for (const auto& idle : queue) idle->connection->set_owner(nullptr);
  }
}

std::shared_ptr<ClientConnection> ConnectionPool::take(const Endpoint& endpoint) {
  const auto found = idle_.find(endpoint);
  if (found == idle_.end()) return nullptr;
  const std::unique_ptr<Idle> idle = std::move(found->second.back());
  found->second.pop_back();
  if (found->second.empty()) idle_.erase(found);
  idle->connection->set_owner(nullptr);
  return idle->connection;
}

void ConnectionPool::put(std::shared_ptr<ClientConnection> connection) {
  if (options_.idle_connections_per_endpoint_max == 0) return;
  Queue& queue = idle_[connection->endpoint];
  if (queue.size() >= options_.idle_connections_per_endpoint_max) {
    queue.front()->connection->set_owner(nullptr);
    queue.pop_front();
  }
  queue.push_back(std::make_unique<Idle>(*this, std::move(connection), loop_.now()));
  queue.back()->connection->set_owner(queue.back().get());
  queue.back()->connection->read_more();
  if (!sweep_.active()) sweep_.set(options_.idle_connection_timeout);
}

void ConnectionPool::forget(const Endpoint& endpoint) {
  const auto found = idle_.find(endpoint);
  if (found == idle_.end()) return;
  for (const auto& idle : found->second) idle->connection->set_owner(nullptr);
  idle_.erase(found);
}

std::size_t ConnectionPool::idle() const {
  std::size_t count = 0;
  for (const auto& [endpoint, queue] : idle_) count += queue.size();
  return count;
}

void ConnectionPool::drop(Idle& idle) {
  const auto found = idle_.find(idle.connection->endpoint);
  if (found == idle_.end()) return;
  idle.connection->set_owner(nullptr);
  std::erase_if(found->second, [&](const auto& entry) { return entry.get() == &idle; });
  if (found->second.empty()) idle_.erase(found);
}

void ConnectionPool::expire() {
  const MonoTime now = loop_.now();
  MonoTime oldest = MonoTime::max();
  for (auto& [endpoint, queue] : idle_) {
    while (!queue.empty() && queue.front()->since + options_.idle_connection_timeout <= now) {
      queue.front()->connection->set_owner(nullptr);
      queue.pop_front();
    }
    if (!queue.empty()) oldest = std::min(oldest, queue.front()->since);
  }
  std::erase_if(idle_, [](const auto& entry) { return entry.second.empty(); });
  if (!idle_.empty()) sweep_.set(oldest + options_.idle_connection_timeout - now);
}

}  // namespace tailrace::net
