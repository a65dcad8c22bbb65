// Who runs next on this thread: a timer, a socket, or a task from another thread?
//
// One EventLoop per thread; everything that belongs to it (streams, servers, clients, timers) is
// used from that thread only. `post` is the one call that other threads may make.
#pragma once

#include <memory>

#include "tailrace/core/time.h"
#include "tailrace/core/unique_function.h"

namespace tailrace::net {

/// A timer that has not fired yet. Destroying or cancelling it means its task never runs. Loop
/// thread.
class Timer {
 public:
  virtual ~Timer() = default;
};

class EventLoop : public Clock {
 public:
  /// Monotonic time. The real loop reads the clock; a simulated one moves from event to event.
  MonoTime now() const override = 0;

  /// Runs `task` on the loop's thread, after the current handler. Thread-safe, in order per caller.
  virtual void post(Task task) = 0;

  /// Runs `task` once at `at` (at once if that has passed), unless the returned timer is destroyed
  /// first.
  [[nodiscard]] virtual std::unique_ptr<Timer> at(MonoTime at, Task task) = 0;
  [[nodiscard]] std::unique_ptr<Timer> after(Duration delay, Task task) {
    return at(now() + delay, std::move(task));
  }

  /// Handles events until stop(). The caller's thread becomes the loop's thread.
  virtual void run() = 0;
  /// Thread-safe. Pending tasks and timers are dropped when the loop is destroyed.
  virtual void stop() = 0;

  /// Calls `handler` on the loop's thread for each SIGTERM, SIGINT or (unless it is
  /// ignored, as under nohup) SIGHUP that the process receives.
  virtual void on_terminate(UniqueFunction<void(int signal)> handler) = 0;
};

/// The real thing, over Asio.
std::unique_ptr<EventLoop> make_event_loop();

}  // namespace tailrace::net
