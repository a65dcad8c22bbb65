// How do sockets reach the io_context behind an EventLoop? Private to src/net.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include "tailrace/net/event_loop.h"

namespace tailrace::net {

class AsioLoop final : public EventLoop {
 public:
  AsioLoop();
  ~AsioLoop() override;

  MonoTime now() const override { return clock_.now(); }
  void post(Task task) override;
  std::unique_ptr<Timer> at(MonoTime at, Task task) override;
  void run() override;
  void stop() override;
  void on_terminate(UniqueFunction<void(int signal)> handler) override;

  boost::asio::io_context& io() { return io_; }

 private:
  void wait_for_signal();

  SteadyClock clock_;
  // A hint of 1: one thread runs the loop, so handlers skip a lock; posting stays thread-safe.
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::unique_ptr<boost::asio::signal_set> signals_;
  UniqueFunction<void(int)> on_signal_;
};

}  // namespace tailrace::net
