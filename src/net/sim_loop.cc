#include <algorithm>

#include "tailrace/net/sim_network.h"

namespace tailrace::net {

/// Takes its event out of the queue when it is dropped, so that time does not walk through dead
/// timers.
class SimLoop::SimTimer final : public Timer {
 public:
  SimTimer(SimLoop& loop, Key key) : loop_(loop), key_(key) {}
  ~SimTimer() override { const auto dropped = loop_.events_.extract(key_); }

 private:
  SimLoop& loop_;
  Key key_;
};

SimLoop::~SimLoop() {
  // One at a time: what an event owns may ask for another one when it goes.
  while (!events_.empty()) const auto dropped = events_.extract(events_.begin());
}

void SimLoop::post_at(MonoTime at, Task task) {
  events_.emplace(Key{std::max(at, now_), next_sequence_++}, std::move(task));
}

std::unique_ptr<Timer> SimLoop::at(MonoTime at, Task task) {
  const Key key{std::max(at, now_), next_sequence_++};
  events_.emplace(key, std::move(task));
  return std::make_unique<SimTimer>(*this, key);
}

void SimLoop::run_next() {
  auto event = events_.extract(events_.begin());
  now_ = event.key().first;
  event.mapped()();
}

void SimLoop::run() {
  while (!stopped_ && !events_.empty()) run_next();
  stopped_ = false;
}

void SimLoop::run_until(MonoTime end) {
  while (!stopped_ && !events_.empty() && events_.begin()->first.first <= end) run_next();
  if (!stopped_) now_ = std::max(now_, end);
  stopped_ = false;
}

void SimLoop::on_terminate(UniqueFunction<void(int signal)> handler) {
  on_signal_ = std::move(handler);
}

void SimLoop::raise(int signal) {
  post([this, signal] {
    if (on_signal_) on_signal_(signal);
  });
}

}  // namespace tailrace::net
