#include "tailrace/net/event_loop.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>

#include "net/asio_loop.h"
#include "tailrace/core/check.h"

namespace tailrace::net {
namespace {

namespace asio = boost::asio;
using SteadyTimer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                               asio::wait_traits<std::chrono::steady_clock>,
                                               asio::io_context::executor_type>;

class AsioTimer final : public Timer {
 public:
  AsioTimer(asio::io_context& io, Duration delay, Task task)
      : task_(std::make_shared<Task>(std::move(task))), timer_(io, delay) {
    // Cancelling cannot recall a handler that is queued already; an emptied task can.
    timer_.async_wait([task_cell = task_](const boost::system::error_code& ec) {
      if (ec || !*task_cell) return;
      Task due = std::move(*task_cell);
      due();
    });
  }
  ~AsioTimer() override { const Task dropped = std::move(*task_); }

 private:
  std::shared_ptr<Task> task_;
  SteadyTimer timer_;
};

}  // namespace

AsioLoop::AsioLoop() : work_(asio::make_work_guard(io_)) {}

AsioLoop::~AsioLoop() = default;

void AsioLoop::post(Task task) {
  asio::post(io_, [task = std::move(task)]() mutable { task(); });
}

std::unique_ptr<Timer> AsioLoop::at(MonoTime at, Task task) {
  return std::make_unique<AsioTimer>(io_, std::max(at - now(), Duration{0}), std::move(task));
}

void AsioLoop::run() {
  io_.run();
  io_.restart();  // afterwards, so that a stop() that comes before run() is not lost
}

void AsioLoop::stop() {
  io_.stop();
}

void AsioLoop::on_terminate(UniqueFunction<void(int signal)> handler) {
  on_signal_ = std::move(handler);
  if (signals_) return;
  signals_ = std::make_unique<asio::signal_set>(io_, SIGTERM, SIGINT);
  // A lost terminal ends us as gently as the others do, unless nohup has said that it must not.
  struct sigaction hang_up{};
  if (sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler != SIG_IGN) {
    signals_->add(SIGHUP);
  }
  wait_for_signal();
}

void AsioLoop::wait_for_signal() {
  signals_->async_wait([this](const boost::system::error_code& ec, int signal) {
    if (ec) return;
    wait_for_signal();
    if (on_signal_) on_signal_(signal);
  });
}

std::unique_ptr<EventLoop> make_event_loop() {
  return std::make_unique<AsioLoop>();
}

}  // namespace tailrace::net
