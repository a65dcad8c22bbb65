// When do the tokens of a virtual-time engine come out in real time?
//
// The driver maps the engine's time line onto the loop's: emulated = (loop time − start) · scale. A
// timer fires at the end of each iteration; when the loop comes late, every iteration that is due
// is completed in that turn with the time it should have ended, and the sink is told once that the
// turn is over, so that each stream is written once. Before a sequence is added, what is due is
// completed, so that it never joins an iteration that began before it came. Lateness is counted,
// never hidden. Loop thread.
#pragma once

#include <memory>

#include "tailrace/engine/engine_core.h"
#include "tailrace/net/event_loop.h"

namespace tailrace::emulator {

class TokenSink {
 public:
  virtual ~TokenSink() = default;
  /// An iteration is complete; its tokens follow.
  virtual void on_iteration(const engine::Iteration& iteration) = 0;
  /// A token of that iteration. May abort sequences, must not add any.
  virtual void on_token(const engine::TokenEvent& event) = 0;
  /// Everything that was due has been reported.
  virtual void on_turn_end() = 0;
};

struct DriverLag {
  Duration last{0};  ///< real time between an iteration's due end and the turn that completed it
  Duration max{0};
  std::uint64_t caught_up = 0;  ///< iterations that shared a turn with an earlier one
};

class EngineDriver {
 public:
  EngineDriver(net::EventLoop& loop, engine::EngineCore& core, double time_scale, TokenSink& sink);

  MonoTime emulated_now() const;
  Duration to_real(Duration emulated) const;

  Result<void> add(const engine::SequenceSpec& spec);
  void abort(engine::SequenceId id) { core_.abort(id); }

  const DriverLag& lag() const { return lag_; }

 private:
  void start_if_idle();
  void begin(MonoTime emulated);
  void wait_for_end();
  void complete_due();

  net::EventLoop& loop_;
  engine::EngineCore& core_;
  double time_scale_;
  TokenSink& sink_;
  MonoTime start_;
  std::optional<engine::Iteration> under_way_;
  bool start_posted_ = false;
  std::unique_ptr<net::Timer> timer_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  DriverLag lag_;
};

}  // namespace tailrace::emulator
