#include "emulator/engine_driver.h"

#include <algorithm>

namespace tailrace::emulator {

// A turn must end some time even when the machine cannot keep up at all, so that sockets are
// served.
constexpr int kIterationsPerTurnMax = 1000;

EngineDriver::EngineDriver(net::EventLoop& loop, engine::EngineCore& core, double time_scale,
                           TokenSink& sink)
    : loop_(loop), core_(core), time_scale_(time_scale), sink_(sink), start_(loop.now()) {}

MonoTime EngineDriver::emulated_now() const {
  const Duration real = loop_.now() - start_;
  if (time_scale_ == 1) return MonoTime{real};
  return MonoTime{from_seconds(to_seconds(real) * time_scale_)};
}

Duration EngineDriver::to_real(Duration emulated) const {
  if (time_scale_ == 1) return emulated;
  return from_seconds(to_seconds(emulated) / time_scale_);
}

Result<void> EngineDriver::add(const engine::SequenceSpec& spec) {
  if (under_way_ && under_way_->ends <= emulated_now()) complete_due();
  auto added = core_.add(spec, emulated_now());
  if (added) start_if_idle();
  return added;
}

/// The first iteration begins after the current handler, so that requests which came together share
/// it.
void EngineDriver::start_if_idle() {
  if (under_way_ || start_posted_) return;
  start_posted_ = true;
  loop_.post([this, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    start_posted_ = false;
    if (!under_way_) begin(emulated_now());
  });
}

void EngineDriver::begin(MonoTime emulated) {
  under_way_ = core_.begin_iteration(emulated);
  if (under_way_) wait_for_end();
}

void EngineDriver::wait_for_end() {
  const MonoTime due = start_ + to_real(under_way_->ends.time_since_epoch());
  timer_ = loop_.at(due, [this] { complete_due(); });
}

void EngineDriver::complete_due() {
  const MonoTime now = emulated_now();
  lag_.last = to_real(std::max(Duration{0}, now - under_way_->ends));
  lag_.max = std::max(lag_.max, lag_.last);
  for (int done = 0; under_way_ && done < kIterationsPerTurnMax; ++done) {
    if (done > 0 && under_way_->ends > now) break;
    const engine::Iteration iteration = *under_way_;
    if (done > 0) ++lag_.caught_up;
    sink_.on_iteration(iteration);
    for (const engine::TokenEvent& event : core_.end_iteration()) sink_.on_token(event);
    under_way_ = core_.begin_iteration(iteration.ends);
  }
  if (under_way_) wait_for_end();
  sink_.on_turn_end();
}

}  // namespace tailrace::emulator
